"""Gauss's way: sums of parts are made in registers, so that three products do for four."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_complex.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def three_kernel(
    a_ptr, b_ptr, c_ptr, d_ptr, re_ptr, im_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    left, right = m[:, None] * K + k[None, :], k[:, None] * N + n[None, :]
    first = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    second = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    third = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        left_mask = (m[:, None] < M) & (k[None, :] < K - k0)
        right_mask = (k[:, None] < K - k0) & (n[None, :] < N)
        a = tl.load(a_ptr + left, mask=left_mask, other=0.0)
        b = tl.load(b_ptr + left, mask=left_mask, other=0.0)
        c = tl.load(c_ptr + right, mask=right_mask, other=0.0)
        d = tl.load(d_ptr + right, mask=right_mask, other=0.0)
        first = tl.dot(a + b, c, first)
        second = tl.dot(a, d - c, second)
        third = tl.dot(b, c + d, third)
        left += BLOCK_K
        right += BLOCK_K * N
    at = m[:, None] * N + n[None, :]
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(re_ptr + at, (first - third).to(re_ptr.dtype.element_ty), mask=inside)
    tl.store(im_ptr + at, (first + second).to(im_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Four tiles and their sums fit in shared memory, three sums in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = (params["num_stages"] + 1) * 2 * (m + n) * k * itemsize(shape)
    return shared <= 220 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 32


def kernel(a, b, c, d, *, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=4, num_stages=2):
    (M, K), N = a.shape, c.shape[1]
    re, im = (torch.empty((M, N), dtype=a.dtype, device=a.device) for _ in range(2))
    three_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](
        a, b, c, d, re, im, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return re, im
