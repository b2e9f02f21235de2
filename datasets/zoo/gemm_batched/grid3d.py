"""A 3-D grid: tile column, tile row, batch entry; masked loads from plain pointers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_batched.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [16, 32, 64],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def grid3d_kernel(
    x_ptr, y_ptr, out_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    entry = tl.program_id(2).to(tl.int64)
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + entry * M * K + m[:, None] * K + k[None, :]
    y_ptrs = y_ptr + entry * K * N + k[:, None] * N + n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        inside = k < K - k0
        x = tl.load(x_ptrs, mask=(m[:, None] < M) & inside[None, :], other=0.0)
        y = tl.load(y_ptrs, mask=(n[None, :] < N) & inside[:, None], other=0.0)
        acc = tl.dot(x, y, acc)
        x_ptrs += BLOCK_K
        y_ptrs += BLOCK_K * N
    out_ptrs = out_ptr + entry * M * N + m[:, None] * N + n[None, :]
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptrs, acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Four to 128 accumulators a thread, and no tile far larger than the matrix."""
    m, n = params["BLOCK_M"], params["BLOCK_N"]
    near = m < 4 * shape["M"] and n < 4 * shape["N"]
    return near and 4 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(x, y, *, BLOCK_M=32, BLOCK_N=64, BLOCK_K=32, num_warps=4, num_stages=3):
    (B, M, K), N = x.shape, y.shape[2]
    out = torch.empty((B, M, N), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M), B)
    grid3d_kernel[grid](
        x, y, out, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, num_warps=num_warps, num_stages=num_stages
    )
    return out
