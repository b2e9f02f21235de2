"""Unit rows of the bank are written to memory; queries stay in a program, which keeps the best."""

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
    "SHARES": [16, 64],
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def unit_kernel(x_ptr, out_ptr, N, K, ROWS: tl.constexpr, DEEP: tl.constexpr):
    """Rows of length one, padded with zeros to DEEP."""
    n = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    k = tl.arange(0, DEEP)
    mask = (n[:, None] < N) & (k[None, :] < K)
    x = tl.load(x_ptr + n[:, None] * K + k[None, :], mask=mask, other=0.0).to(tl.float32)
    x *= tl.rsqrt(tl.sum(x * x, axis=1) + 1e-30)[:, None]
    to = out_ptr + n[:, None] * DEEP + k[None, :]
    tl.store(to, x.to(out_ptr.dtype.element_ty), mask=n[:, None] < N)


@triton.jit
def best_kernel(
    q_ptr, bank_ptr, best_ptr, place_ptr, M, N, LENGTH,
    DEEP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    k = tl.arange(0, DEEP)
    q = tl.load(q_ptr + m[:, None] * DEEP + k[None, :], mask=m[:, None] < M, other=0.0)
    best = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    place = tl.zeros((BLOCK_M,), dtype=tl.int32)
    first = tl.program_id(1) * LENGTH
    for start in range(first, min(first + LENGTH, N), BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        row = tl.load(bank_ptr + n[None, :] * DEEP + k[:, None], mask=n[None, :] < N, other=0.0)
        scores = tl.where(n[None, :] < N, tl.dot(q, row), float("-inf"))
        top, at = tl.max(scores, axis=1, return_indices=True)
        place = tl.where(top > best, start + at, place)
        best = tl.maximum(best, top)
    tl.store(best_ptr + tl.program_id(1) * M + m, best, mask=m < M)
    tl.store(place_ptr + tl.program_id(1) * M + m, place, mask=m < M)


@triton.jit
def join_kernel(
    best_ptr, place_ptr, out_ptr, out_place_ptr, M, shares, WIDE: tl.constexpr, BLOCK: tl.constexpr
):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    share = tl.arange(0, WIDE)[:, None]
    mask = (share < shares) & (m < M)
    best = tl.load(best_ptr + share * M + m, mask=mask, other=float("-inf"))
    top, at = tl.max(best, axis=0, return_indices=True)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + rows, top, mask=rows < M)
    place = tl.load(place_ptr + at * M + rows, mask=rows < M, other=0)
    tl.store(out_place_ptr + rows, place, mask=rows < M)


def valid(params, shape):
    """Whole rows fit in shared memory, scores in registers."""
    m, n = params["BLOCK_M"], params["BLOCK_N"]
    deep = 1 << (shape["K"] - 1).bit_length()
    shared = (m + n * params["num_stages"]) * deep * itemsize(shape)
    near = m < 2 * shape["M"]
    return near and shared <= 200 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 64


def kernel(queries, bank, *, SHARES=16, BLOCK_M=32, BLOCK_N=64, num_warps=4, num_stages=1):
    (M, K), N = queries.shape, bank.shape[0]
    device, deep = queries.device, triton.next_power_of_2(K)
    q = torch.empty((M, deep), dtype=queries.dtype, device=device)
    unit = torch.empty((N, deep), dtype=queries.dtype, device=device)
    for rows, count, into in ((bank, N, unit), (queries, M, q)):
        unit_kernel[(triton.cdiv(count, 4),)](rows, into, count, K, 4, deep, num_warps=4)
    length = triton.cdiv(triton.cdiv(N, BLOCK_N), SHARES) * BLOCK_N
    shares = triton.cdiv(N, length)
    best = torch.empty((shares, M), dtype=torch.float32, device=device)
    place = torch.empty((shares, M), dtype=torch.int32, device=device)
    best_kernel[(triton.cdiv(M, BLOCK_M), shares)](
        q, unit, best, place, M, N, length, deep, BLOCK_M, BLOCK_N,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    out = torch.empty(M, dtype=torch.float32, device=device)
    out_place = torch.empty(M, dtype=torch.int32, device=device)
    wide = triton.next_power_of_2(shares)
    join_kernel[(triton.cdiv(M, 32),)](best, place, out, out_place, M, shares, wide, 32)
    return out, out_place
