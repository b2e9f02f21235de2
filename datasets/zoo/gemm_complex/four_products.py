"""Four products a step into two sums: two tiles of either factor serve twice."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_complex.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64],
    "GROUP_M": [1, 8],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def four_kernel(
    a_ptr, b_ptr, c_ptr, d_ptr, re_ptr, im_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    i, j = tl.swizzle2d(
        tl.program_id(0) // tiles_n, tl.program_id(0) % tiles_n, tiles_m, tiles_n, GROUP_M
    )
    m, n = i * BLOCK_M + tl.arange(0, BLOCK_M), j * BLOCK_N + tl.arange(0, BLOCK_N)
    plus = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    minus = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    im = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        left, right = m[:, None] * K + k[None, :], k[:, None] * N + n[None, :]
        left_mask = (m[:, None] < M) & (k[None, :] < K)
        right_mask = (k[:, None] < K) & (n[None, :] < N)
        a = tl.load(a_ptr + left, mask=left_mask, other=0.0)
        b = tl.load(b_ptr + left, mask=left_mask, other=0.0)
        c = tl.load(c_ptr + right, mask=right_mask, other=0.0)
        d = tl.load(d_ptr + right, mask=right_mask, other=0.0)
        plus = tl.dot(a, c, plus)
        minus = tl.dot(b, d, minus)
        im = tl.dot(a, d, im)
        im = tl.dot(b, c, im)
    at = m[:, None] * N + n[None, :]
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(re_ptr + at, (plus - minus).to(re_ptr.dtype.element_ty), mask=inside)
    tl.store(im_ptr + at, im.to(im_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Four tiles fit in shared memory, three sums in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * 2 * (m + n) * k * itemsize(shape)
    return shared <= 220 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 32


def kernel(
    a, b, c, d, *, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, GROUP_M=8, num_warps=4, num_stages=3
):  # fmt: skip
    (M, K), N = a.shape, c.shape[1]
    re, im = (torch.empty((M, N), dtype=a.dtype, device=a.device) for _ in range(2))
    four_kernel[(triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)](
        a, b, c, d, re, im, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return re, im
