"""One kernel pads the experts' slots to whole tiles, one multiplies a tile a program, one adds."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.moe.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [32, 64],
    "N_FIRST": [False, True],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def pad_kernel(slot_ptr, offset_ptr, padded_ptr, expert_ptr, E, BLOCK_M: tl.constexpr):
    expert = tl.program_id(0)
    before = 0  # tiles of the experts before
    for other in range(expert):
        count = tl.load(offset_ptr + other + 1) - tl.load(offset_ptr + other)
        before += tl.cdiv(count, BLOCK_M)
    first, end = tl.load(offset_ptr + expert), tl.load(offset_ptr + expert + 1)
    for i in range(tl.cdiv(end - first, BLOCK_M)):
        at = first + i * BLOCK_M + tl.arange(0, BLOCK_M)
        slot = tl.load(slot_ptr + at, mask=at < end, other=-1)
        tl.store(padded_ptr + (before + i) * BLOCK_M + tl.arange(0, BLOCK_M), slot)
        tl.store(expert_ptr + before + i, expert)


@triton.jit
def tile_kernel(
    x_ptr, w_ptr, gate_ptr, padded_ptr, expert_ptr, each_ptr, N, K,
    TOP: tl.constexpr, N_FIRST: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(1 if N_FIRST else 0)
    n0 = tl.program_id(0 if N_FIRST else 1) * BLOCK_N
    expert = tl.load(expert_ptr + tile).to(tl.int64)
    if expert >= 0:
        slot = tl.load(padded_ptr + tile * BLOCK_M + tl.arange(0, BLOCK_M))
        rows = (slot // TOP)[:, None] * K
        alive = (slot >= 0)[:, None]
        w_base = w_ptr + expert * K * N
        w_tile = tl.make_block_ptr(w_base, (K, N), (N, 1), (0, n0), (BLOCK_K, BLOCK_N), (1, 0))
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k0 in range(0, K, BLOCK_K):
            k = (k0 + tl.arange(0, BLOCK_K))[None, :]
            x = tl.load(x_ptr + rows + k, mask=alive & (k < K), other=0.0)
            acc = tl.dot(x, tl.load(w_tile, boundary_check=(0, 1), padding_option="zero"), acc)
            w_tile = tl.advance(w_tile, (BLOCK_K, 0))
        gate = tl.load(gate_ptr + slot, mask=slot >= 0, other=0.0)
        n = n0 + tl.arange(0, BLOCK_N)[None, :]
        out = (acc * gate[:, None]).to(each_ptr.dtype.element_ty)
        tl.store(each_ptr + slot[:, None] * N + n, out, mask=alive & (n < N))


@triton.jit
def add_kernel(each_ptr, out_ptr, N, size, TOP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    base = each_ptr + at // N * (TOP * N) + at % N
    total = tl.load(base, mask=at < size).to(tl.float32)
    for choice in range(1, TOP):
        total += tl.load(base + choice * N, mask=at < size).to(tl.float32)
    tl.store(out_ptr + at, total.to(out_ptr.dtype.element_ty), mask=at < size)


def valid(params, shape):
    """Tiles fit in shared memory, sums in registers; no tile for far more rows than there are."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    near = m < 2 * max(16, shape["T"] * shape["TOP"])
    return near and shared <= 227 * 1024 and 4 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, gates, slots, offsets, sizes, *, BLOCK_M=16, BLOCK_N=128, BLOCK_K=64, N_FIRST=True,
    num_warps=4, num_stages=3,
):  # fmt: skip
    (T, K), (E, _, N), top = x.shape, w.shape, gates.shape[1]
    tiles = triton.cdiv(T * top, BLOCK_M) + min(E, T * top)
    padded = torch.empty((tiles, BLOCK_M), dtype=torch.int32, device=x.device)
    experts = torch.full((tiles,), -1, dtype=torch.int32, device=x.device)
    each = torch.empty((T * top, N), dtype=x.dtype, device=x.device)
    out = torch.empty((T, N), dtype=x.dtype, device=x.device)
    pad_kernel[(E,)](slots, offsets, padded, experts, E, BLOCK_M, num_warps=1)
    grid = (triton.cdiv(N, BLOCK_N), tiles)
    tile_kernel[grid if N_FIRST else grid[::-1]](
        x, w, gates, padded, experts, each, N, K, top, N_FIRST, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    add_kernel[(triton.cdiv(T * N, 1024),)](each, out, N, T * N, top, 1024)
    return out
