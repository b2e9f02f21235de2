"""Persistent: the programs of a row of tiles all make x @ a.T, in a second sweep along K."""

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
    "PROGRAMS": [132, 264],
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def rows_by_rows(
    x_ptr, w_ptr, m0, n0, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Rows m0 … of x by rows n0 … of w."""
    m, n, k = m0 + tl.arange(0, BLOCK_M), n0 + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        inside = k0 + k < K
        x_ptrs = x_ptr + m[:, None] * K + (k0 + k)[None, :]
        w_ptrs = w_ptr + n[None, :] * K + (k0 + k)[:, None]
        x = tl.load(x_ptrs, mask=(m[:, None] < M) & inside[None, :], other=0.0)
        w = tl.load(w_ptrs, mask=(n[None, :] < N) & inside[:, None], other=0.0)
        acc = tl.dot(x, w, acc)
    return acc


@triton.jit
def sweeps_kernel(
    x_ptr, w_ptr, a_ptr, b_ptr, out_ptr, M, N, K, R, RANK: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    columns = tl.cdiv(N, BLOCK_N)
    for tile in range(tl.program_id(0), tl.cdiv(M, BLOCK_M) * columns, tl.num_programs(0)):
        m0, n0 = tile // columns * BLOCK_M, tile % columns * BLOCK_N
        low = rows_by_rows(x_ptr, a_ptr, m0, 0, M, R, K, BLOCK_M, RANK, BLOCK_K)
        acc = rows_by_rows(x_ptr, w_ptr, m0, n0, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K)
        m, n, r = m0 + tl.arange(0, BLOCK_M), n0 + tl.arange(0, BLOCK_N), tl.arange(0, RANK)
        b_mask = (n[None, :] < N) & (r[:, None] < R)
        b = tl.load(b_ptr + n[None, :] * R + r[:, None], mask=b_mask, other=0.0)
        acc += tl.dot(low.to(b.dtype), b)
        out_ptrs = out_ptr + m[:, None] * N + n[None, :]
        inside = (m[:, None] < M) & (n[None, :] < N)
        tl.store(out_ptrs, acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """The tiles of a sweep fit in shared memory, both sums in registers; rows not far beyond M."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    rank = padded_rank(shape["R"])
    shared = (params["num_stages"] * (m + max(n, rank)) * k + (m + n) * rank) * itemsize(shape)
    near = m < 2 * max(16, shape["M"])
    sums = m * (n + rank) / (32 * params["num_warps"])
    return near and shared <= 227 * 1024 and 4 <= sums <= 128


def kernel(
    x, w, a, b, *, PROGRAMS=264, BLOCK_M=16, BLOCK_N=128, BLOCK_K=64, num_warps=4, num_stages=3
):  # fmt: skip
    (M, K), (N, R) = x.shape, b.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    sweeps_kernel[(min(PROGRAMS, tiles),)](
        x, w, a, b, out, M, N, K, R, padded_rank(R), BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
