"""Each program makes two tiles side by side, so that a tile of x serves two products."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64],
    "SWIZZLE": [1, 4, 16],
    "num_warps": [4, 8],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def two_tiles_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SWIZZLE: tl.constexpr,
):  # fmt: skip
    i, j = tl.swizzle2d(
        tl.program_id(1), tl.program_id(0), tl.num_programs(1), tl.num_programs(0), SWIZZLE
    )
    # Rows and columns past the end wrap around: their values are never stored.
    m = (i * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    left = (2 * j * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    right = ((2 * j + 1) * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + (m[:, None] * K + k[None, :])
    left_ptrs = w_ptr + (k[:, None] * N + left[None, :])
    right_ptrs = w_ptr + (k[:, None] * N + right[None, :])
    left_sum = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    right_sum = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        inside = k < K - k0
        x = tl.load(x_ptrs, mask=inside[None, :], other=0.0)
        left_sum = tl.dot(x, tl.load(left_ptrs, mask=inside[:, None], other=0.0), left_sum)
        right_sum = tl.dot(x, tl.load(right_ptrs, mask=inside[:, None], other=0.0), right_sum)
        x_ptrs += BLOCK_K
        left_ptrs += BLOCK_K * N
        right_ptrs += BLOCK_K * N
    m = i * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = 2 * j * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    dtype = out_ptr.dtype.element_ty
    tl.store(out_ptr + m * N + n, left_sum.to(dtype), mask=(m < M) & (n < N))
    n += BLOCK_N
    tl.store(out_ptr + m * N + n, right_sum.to(dtype), mask=(m < M) & (n < N))


def valid(params, shape):
    """The three tiles fit in shared memory, both accumulators in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + 2 * n) * k * itemsize(shape)
    return shared <= 227 * 1024 and 8 <= 2 * m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, *, BLOCK_M=128, BLOCK_N=64, BLOCK_K=32, SWIZZLE=4, num_warps=8, num_stages=3
):  # fmt: skip
    (M, K), N = x.shape, w.shape[1]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    two_tiles_kernel[(triton.cdiv(N, 2 * BLOCK_N), triton.cdiv(M, BLOCK_M))](
        x, w, out, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, SWIZZLE,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
