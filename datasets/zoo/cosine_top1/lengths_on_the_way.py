"""Lengths of bank rows are summed beside the products; the best of a share, joined by a kernel."""

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
    "SHARES": [8, 32, 128],
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [64, 128],
    "BLOCK_K": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def share_kernel(
    q_ptr, bank_ptr, best_ptr, place_ptr, M, N, K, LENGTH,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    best = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    place = tl.zeros((BLOCK_M,), dtype=tl.int32)
    first = tl.program_id(1) * LENGTH
    for start in range(first, min(first + LENGTH, N), BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        squares = tl.zeros((BLOCK_N,), dtype=tl.float32)
        for k0 in range(0, K, BLOCK_K):
            k = k0 + tl.arange(0, BLOCK_K)
            q_mask = (m[:, None] < M) & (k[None, :] < K)
            bank_mask = (n[None, :] < N) & (k[:, None] < K)
            q = tl.load(q_ptr + m[:, None] * K + k[None, :], mask=q_mask, other=0.0)
            row = tl.load(bank_ptr + n[None, :] * K + k[:, None], mask=bank_mask, other=0.0)
            acc = tl.dot(q, row, acc)
            squares += tl.sum(row.to(tl.float32) * row.to(tl.float32), axis=0)
        scores = tl.where(n[None, :] < N, acc * tl.rsqrt(squares)[None, :], float("-inf"))
        top, at = tl.max(scores, axis=1, return_indices=True)
        place = tl.where(top > best, start + at, place)
        best = tl.maximum(best, top)
    to = tl.program_id(1) * M + m
    tl.store(best_ptr + to, best, mask=m < M)
    tl.store(place_ptr + to, place, mask=m < M)


@triton.jit
def join_kernel(
    q_ptr, best_ptr, place_ptr, out_ptr, out_place_ptr, M, K, shares,
    WIDE: tl.constexpr, DEEP: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0)
    share, k = tl.arange(0, WIDE), tl.arange(0, DEEP)
    best = tl.load(best_ptr + share * M + m, mask=share < shares, other=float("-inf"))
    top, at = tl.max(best, axis=0, return_indices=True)
    q = tl.load(q_ptr + m * K + k, mask=k < K, other=0.0).to(tl.float32)
    tl.store(out_ptr + m, top * tl.rsqrt(tl.sum(q * q)))
    tl.store(out_place_ptr + m, tl.load(place_ptr + at * M + m))


def valid(params, shape):
    """Tiles fit in shared memory, the sums in registers; rows not far beyond those there are."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    near = m < 2 * shape["M"]
    return near and shared <= 200 * 1024 and 16 <= m * n / (32 * params["num_warps"]) <= 64


def kernel(
    queries, bank, *, SHARES=32, BLOCK_M=64, BLOCK_N=128, BLOCK_K=32, num_warps=4, num_stages=3
):  # fmt: skip
    (M, K), N = queries.shape, bank.shape[0]
    length = triton.cdiv(triton.cdiv(N, BLOCK_N), SHARES) * BLOCK_N
    shares = triton.cdiv(N, length)
    best = torch.empty((shares, M), dtype=torch.float32, device=queries.device)
    place = torch.empty((shares, M), dtype=torch.int32, device=queries.device)
    share_kernel[(triton.cdiv(M, BLOCK_M), shares)](
        queries, bank, best, place, M, N, K, length, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    out = torch.empty(M, dtype=torch.float32, device=queries.device)
    out_place = torch.empty(M, dtype=torch.int32, device=queries.device)
    join_kernel[(M,)](
        queries, best, place, out, out_place, M, K, shares,
        triton.next_power_of_2(shares), triton.next_power_of_2(K), num_warps=4,
    )  # fmt: skip
    return out, out_place
