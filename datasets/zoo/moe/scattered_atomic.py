"""A program column per expert that adds its rows to an fp32 result atomically."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.moe.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64, 128],
    "SLICES": [1, 2, 8],  # programs that share the rows of an expert
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def scatter_kernel(
    x, w, gates, slots, offsets, total, N, K, TOP: tl.constexpr, SLICES: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    expert = tl.program_id(1)
    start = tl.load(offsets + expert)
    end = tl.load(offsets + expert + 1)
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    w += expert.to(tl.int64) * K * N
    for first in range(start + tl.program_id(2) * BLOCK_M, end, SLICES * BLOCK_M):
        at = first + tl.arange(0, BLOCK_M)
        slot = tl.load(slots + at, mask=at < end, other=0)
        token = (slot // TOP)[:, None]
        alive = (at < end)[:, None]
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(tl.cdiv(K, BLOCK_K)):
            k = step * BLOCK_K + tl.arange(0, BLOCK_K)
            a = tl.load(x + token * K + k[None, :], mask=alive & (k[None, :] < K), other=0.0)
            b_mask = (k[:, None] < K) & (cols < N)
            b = tl.load(w + k[:, None] * N + cols, mask=b_mask, other=0.0)
            acc += tl.dot(a, b)
        acc *= tl.load(gates + slot, mask=at < end, other=0.0)[:, None]
        tl.atomic_add(total + token * N + cols, acc, mask=alive & (cols < N), sem="relaxed")


@triton.jit
def round_kernel(total, out, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(total + at, mask=at < size)
    tl.store(out + at, values.to(out.dtype.element_ty), mask=at < size)


def valid(params, shape):
    """Tiles fit in shared memory, sums in registers; slices and tiles suit the rows there are."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    rows = shape["T"] * shape["TOP"]
    near = m < 2 * max(16, rows)
    needed = params["SLICES"] == 1 or params["SLICES"] * m * shape["E"] <= 4 * rows
    fits = shared <= 227 * 1024 and 4 <= m * n / (32 * params["num_warps"]) <= 128
    return near and needed and fits


def kernel(
    x, w, gates, slots, offsets, sizes, *, BLOCK_M=16, BLOCK_N=64, BLOCK_K=64, SLICES=1,
    num_warps=4, num_stages=3,
):  # fmt: skip
    (T, K), (E, _, N), top = x.shape, w.shape, gates.shape[1]
    total = torch.zeros((T, N), dtype=torch.float32, device=x.device)
    scatter_kernel[(triton.cdiv(N, BLOCK_N), E, SLICES)](
        x, w, gates, slots, offsets, total, N, K, top, SLICES, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    if x.dtype == torch.float32:
        return total
    out = torch.empty((T, N), dtype=x.dtype, device=x.device)
    round_kernel[(triton.cdiv(T * N, 1024),)](total, out, T * N, 1024)
    return out
