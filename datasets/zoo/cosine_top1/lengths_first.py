"""Inverse lengths by a kernel of their own; tiles put a key of score and place in one atomic."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.cosine_top1.problem import (
    SHAPES,
    TOLERANCE,
    check,
    inputs,
    itemsize,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "check", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [64, 128, 256],
    "BLOCK_K": [32, 64],
    "QUERIES_FIRST": [False, True],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def lengths_kernel(x_ptr, out_ptr, N, K, ROWS: tl.constexpr, DEEP: tl.constexpr):
    n = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    k = tl.arange(0, DEEP)
    mask = (n[:, None] < N) & (k[None, :] < K)
    x = tl.load(x_ptr + n[:, None] * K + k[None, :], mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + n, tl.rsqrt(tl.sum(x * x, axis=1)), mask=n < N)


@triton.jit
def tile_kernel(
    q_ptr, bank_ptr, length_ptr, key_ptr, M, N, K, QUERIES_FIRST: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    high, wide = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    i = tl.program_id(0) % high if QUERIES_FIRST else tl.program_id(0) // wide
    j = tl.program_id(0) // high if QUERIES_FIRST else tl.program_id(0) % wide
    m, n = i * BLOCK_M + tl.arange(0, BLOCK_M), j * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    q_ptrs = q_ptr + m[:, None] * K + k[None, :]
    bank_ptrs = bank_ptr + n[None, :] * K + k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        inside = k < K - k0
        q = tl.load(q_ptrs, mask=(m[:, None] < M) & inside[None, :], other=0.0)
        row = tl.load(bank_ptrs, mask=(n[None, :] < N) & inside[:, None], other=0.0)
        acc = tl.dot(q, row, acc)
        q_ptrs += BLOCK_K
        bank_ptrs += BLOCK_K
    length = tl.load(length_ptr + n, mask=n < N, other=0.0)
    scores = tl.where(n[None, :] < N, acc * length[None, :], float("-inf"))
    top, at = tl.max(scores, axis=1, return_indices=True)
    # Bits of a positive float order as it does; the best of so many scores is positive.
    bits = tl.maximum(top, 0.0).to(tl.int32, bitcast=True).to(tl.int64)
    key = bits * 4294967296 + (j * BLOCK_N + at).to(tl.int64)
    tl.atomic_max(key_ptr + m, key, mask=m < M, sem="relaxed")


@triton.jit
def unpack_kernel(key_ptr, q_length_ptr, out_ptr, place_ptr, M, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(key_ptr + m, mask=m < M, other=0)
    score = (key >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    tl.store(out_ptr + m, score * tl.load(q_length_ptr + m, mask=m < M, other=0.0), mask=m < M)
    tl.store(place_ptr + m, key.to(tl.int32), mask=m < M)


def valid(params, shape):
    """Tiles fit in shared memory, the sums in registers; rows not far beyond those there are."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    near = m < 2 * shape["M"]
    return near and shared <= 200 * 1024 and 16 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    queries, bank, *, BLOCK_M=64, BLOCK_N=128, BLOCK_K=32, QUERIES_FIRST=True,
    num_warps=4, num_stages=3,
):  # fmt: skip
    (M, K), N = queries.shape, bank.shape[0]
    device = queries.device
    lengths, q_lengths, out = (
        torch.empty(n, dtype=torch.float32, device=device) for n in (N, M, M)
    )
    deep = triton.next_power_of_2(K)
    for rows, count, into in ((bank, N, lengths), (queries, M, q_lengths)):
        lengths_kernel[(triton.cdiv(count, 8),)](rows, into, count, K, 8, deep, num_warps=4)
    keys = torch.zeros(M, dtype=torch.int64, device=device)
    place = torch.empty(M, dtype=torch.int32, device=device)
    tile_kernel[(triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)](
        queries, bank, lengths, keys, M, N, K, QUERIES_FIRST, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    unpack_kernel[(triton.cdiv(M, 128),)](keys, q_lengths, out, place, M, 128)
    return out, place
