"""A thin product x @ a.T first; the large one adds its product with b as a last step."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.lora.problem import (
    SHAPES,
    TOLERANCE,
    inputs,
    itemsize,
    padded_rank,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [32, 64],
    "THIN_M": [16, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def thin_kernel(
    x_ptr, a_ptr, h_ptr, M, R, K,
    BLOCK_M: tl.constexpr, RANK: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    r = tl.arange(0, RANK)[None, :]
    acc = tl.zeros((BLOCK_M, RANK), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + m * K + k[None, :], mask=(m < M) & (k[None, :] < K), other=0.0)
        a = tl.load(a_ptr + r * K + k[:, None], mask=(r < R) & (k[:, None] < K), other=0.0)
        acc = tl.dot(x, a, acc)
    tl.store(h_ptr + m * R + r, acc.to(h_ptr.dtype.element_ty), mask=(m < M) & (r < R))


@triton.jit
def wide_kernel(
    x_ptr, w_ptr, h_ptr, b_ptr, out_ptr, M, N, K, R, RANK: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + m * K + k[None, :]
    w_ptrs = w_ptr + n * K + k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        x = tl.load(x_ptrs, mask=(m < M) & (k[None, :] < K - k0), other=0.0)
        w = tl.load(w_ptrs, mask=(n < N) & (k[:, None] < K - k0), other=0.0)
        acc = tl.dot(x, w, acc)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
    r = tl.arange(0, RANK)
    h = tl.load(h_ptr + m * R + r[None, :], mask=(m < M) & (r[None, :] < R), other=0.0)
    b = tl.load(b_ptr + n * R + r[:, None], mask=(n < N) & (r[:, None] < R), other=0.0)
    acc = tl.dot(h, b, acc)
    tl.store(out_ptr + m * N + n, acc.to(out_ptr.dtype.element_ty), mask=(m < M) & (n < N))


def valid(params, shape):
    """Tiles fit in shared memory, sums in registers; rows not far beyond M."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    rank = padded_rank(shape["R"])
    shared = (params["num_stages"] * (m + n) * k + (m + n) * rank) * itemsize(shape)
    near = m < 2 * max(16, shape["M"])
    return near and shared <= 227 * 1024 and 4 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, a, b, *, BLOCK_M=16, BLOCK_N=128, BLOCK_K=64, THIN_M=16, num_warps=4, num_stages=3
):  # fmt: skip
    (M, K), (N, R), rank = x.shape, b.shape, padded_rank(b.shape[1])
    h = torch.empty((M, R), dtype=x.dtype, device=x.device)
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    thin_kernel[(triton.cdiv(M, THIN_M),)](x, a, h, M, R, K, THIN_M, rank, 64)
    wide_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](
        x, w, h, b, out, M, N, K, R, rank, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
