"""Gauss's way: three products of sums of parts, in blocks of the sum, one tile a program."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.dft_small.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [16, 32, 64],
    "BLOCK_K": [16, 32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def three_kernel(
    re_ptr, im_ptr, cos_ptr, sin_ptr, out_re_ptr, out_im_ptr, M,
    L: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    first = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    second = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    third = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, L, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        rows = m[:, None] * L + k[None, :]
        re = tl.load(re_ptr + rows, mask=m[:, None] < M, other=0.0)
        im = tl.load(im_ptr + rows, mask=m[:, None] < M, other=0.0)
        cos = tl.load(cos_ptr + k[:, None] * L + n[None, :])
        sin = tl.load(sin_ptr + k[:, None] * L + n[None, :])
        first = tl.dot(re + im, cos, first)
        second = tl.dot(re, cos + sin, second)
        third = tl.dot(im, cos - sin, third)
    # re: first - third; im: first - second
    at = m[:, None] * L + n[None, :]
    inside = m[:, None] < M
    tl.store(out_re_ptr + at, (first - third).to(out_re_ptr.dtype.element_ty), mask=inside)
    tl.store(out_im_ptr + at, (first - second).to(out_im_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Tiles fit in shared memory and the length, three sums in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * 2 * (m + n) * k * itemsize(shape)
    held = 3 * m * n / (32 * params["num_warps"])
    return max(n, k) <= shape["L"] and shared <= 200 * 1024 and 4 <= held <= 128


def kernel(
    real, imaginary, cosines, sines, *,
    BLOCK_M=64, BLOCK_N=16, BLOCK_K=16, num_warps=4, num_stages=2,
):  # fmt: skip
    M, L = real.shape
    out_re, out_im = torch.empty_like(real), torch.empty_like(imaginary)
    three_kernel[(triton.cdiv(M, BLOCK_M), L // BLOCK_N)](
        real, imaginary, cosines, sines, out_re, out_im, M, L, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out_re, out_im
