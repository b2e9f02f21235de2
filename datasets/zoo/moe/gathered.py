"""Rows of tokens gathered by expert; each choice's product is kept, then a token's are summed."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.moe.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64, 128],
    "GROUP_N": [1, 4],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def chosen_kernel(
    x_ptr, w_ptr, gate_ptr, slot_ptr, offset_ptr, each_ptr, N, K, E, ROW_TILES,
    TOP: tl.constexpr, EXPERTS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_N: tl.constexpr,
):  # fmt: skip
    band = tl.program_id(0) // (GROUP_N * ROW_TILES)
    width = min(tl.cdiv(N, BLOCK_N) - band * GROUP_N, GROUP_N)
    place = tl.program_id(0) % (GROUP_N * ROW_TILES)
    row_tile, column = place // width, band * GROUP_N + place % width

    e = tl.arange(0, EXPERTS)
    counts = tl.load(offset_ptr + e + 1, mask=e < E, other=0)
    counts -= tl.load(offset_ptr + e, mask=e < E, other=0)
    tiles = (counts + BLOCK_M - 1) // BLOCK_M
    expert = tl.sum((tl.cumsum(tiles, axis=0) <= row_tile).to(tl.int32))
    if expert >= E:
        return
    within = row_tile - tl.sum(tl.where(e < expert, tiles, 0))
    at = tl.load(offset_ptr + expert) + within * BLOCK_M + tl.arange(0, BLOCK_M)
    inside = at < tl.load(offset_ptr + expert + 1)
    slot = tl.load(slot_ptr + at, mask=inside, other=0)

    n = column * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + (slot // TOP)[:, None] * K + k[None, :]
    w_ptrs = w_ptr + expert.to(tl.int64) * K * N + k[:, None] * N + n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        x = tl.load(x_ptrs, mask=inside[:, None] & (k[None, :] < K - k0), other=0.0)
        w = tl.load(w_ptrs, mask=(k[:, None] < K - k0) & (n[None, :] < N), other=0.0)
        acc = tl.dot(x, w, acc)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K * N
    acc *= tl.load(gate_ptr + slot, mask=inside, other=0.0)[:, None]
    each_ptrs = each_ptr + slot[:, None] * N + n[None, :]
    tl.store(each_ptrs, acc.to(each_ptr.dtype.element_ty), mask=inside[:, None] & (n[None, :] < N))


@triton.jit
def sum_choices_kernel(each_ptr, out_ptr, N, TOP: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for choice in tl.static_range(TOP):
        each = tl.load(each_ptr + (token * TOP + choice) * N + n, mask=n < N, other=0.0)
        total += each.to(tl.float32)
    tl.store(out_ptr + token * N + n, total.to(out_ptr.dtype.element_ty), mask=n < N)


def valid(params, shape):
    """Tiles fit in shared memory, sums in registers; no tile for far more rows than there are."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    near = m < 2 * max(16, shape["T"] * shape["TOP"])
    return near and shared <= 227 * 1024 and 4 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, gates, slots, offsets, sizes, *, BLOCK_M=16, BLOCK_N=64, BLOCK_K=64, GROUP_N=1,
    num_warps=4, num_stages=3,
):  # fmt: skip
    (T, K), (E, _, N), top = x.shape, w.shape, gates.shape[1]
    each = torch.empty((T * top, N), dtype=x.dtype, device=x.device)
    out = torch.empty((T, N), dtype=x.dtype, device=x.device)
    row_tiles = triton.cdiv(T * top, BLOCK_M) + min(E, T * top)
    chosen_kernel[(row_tiles * triton.cdiv(N, BLOCK_N),)](
        x, w, gates, slots, offsets, each, N, K, E, row_tiles, top, triton.next_power_of_2(E),
        BLOCK_M, BLOCK_N, BLOCK_K, GROUP_N, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    sum_choices_kernel[(T, triton.cdiv(N, 512))](each, out, N, top, 512)
    return out
