"""Three steps: copy tokens into the order of experts, multiply dense rows, gather and sum."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.moe.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PROGRAMS": [132, 264, 528],
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def permute_kernel(
    x_ptr, slot_ptr, sorted_ptr, place_ptr, K, TOP: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    place = tl.program_id(0)
    slot = tl.load(slot_ptr + place)
    tl.store(place_ptr + slot, place)  # where the slot went, for the way back
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        row = tl.load(x_ptr + slot // TOP * K + k, mask=k < K)
        tl.store(sorted_ptr + place * K + k, row, mask=k < K)


@triton.jit
def experts_kernel(
    sorted_ptr, w_ptr, offset_ptr, each_ptr, E, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    program, programs = tl.program_id(0), tl.num_programs(0)
    columns = tl.cdiv(N, BLOCK_N)
    done = 0  # tiles of the experts before
    for expert in range(E):
        begin, end = tl.load(offset_ptr + expert), tl.load(offset_ptr + expert + 1)
        tiles = tl.cdiv(end - begin, BLOCK_M) * columns
        for tile in range((program + programs - done % programs) % programs, tiles, programs):
            m0, n0 = begin + tile // columns * BLOCK_M, tile % columns * BLOCK_N
            x_tile = tl.make_block_ptr(
                sorted_ptr, (end, K), (K, 1), (m0, 0), (BLOCK_M, BLOCK_K), (1, 0)
            )
            w_tile = tl.make_block_ptr(
                w_ptr + expert * K * N, (K, N), (N, 1), (0, n0), (BLOCK_K, BLOCK_N), (1, 0)
            )
            acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            for _ in range(0, K, BLOCK_K):
                x = tl.load(x_tile, boundary_check=(0, 1), padding_option="zero")
                w = tl.load(w_tile, boundary_check=(0, 1), padding_option="zero")
                acc = tl.dot(x, w, acc)
                x_tile = tl.advance(x_tile, (0, BLOCK_K))
                w_tile = tl.advance(w_tile, (BLOCK_K, 0))
            each_tile = tl.make_block_ptr(
                each_ptr, (end, N), (N, 1), (m0, n0), (BLOCK_M, BLOCK_N), (1, 0)
            )
            tl.store(each_tile, acc.to(each_ptr.dtype.element_ty), boundary_check=(0, 1))
        done += tiles


@triton.jit
def combine_kernel(
    each_ptr, gate_ptr, place_ptr, out_ptr, N, TOP: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    token = tl.program_id(1)
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for choice in range(TOP):
        place = tl.load(place_ptr + token * TOP + choice)
        gate = tl.load(gate_ptr + token * TOP + choice)
        total += gate * tl.load(each_ptr + place * N + n, mask=n < N, other=0.0).to(tl.float32)
    tl.store(out_ptr + token * N + n, total.to(out_ptr.dtype.element_ty), mask=n < N)


def valid(params, shape):
    """Tiles fit in shared memory, sums in registers; no tile for far more rows than there are."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    near = m < 2 * max(16, shape["T"] * shape["TOP"])
    return near and shared <= 227 * 1024 and 4 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, gates, slots, offsets, sizes, *, PROGRAMS=264, BLOCK_M=16, BLOCK_N=64, BLOCK_K=64,
    num_warps=4, num_stages=3,
):  # fmt: skip
    (T, K), (E, _, N), top = x.shape, w.shape, gates.shape[1]
    in_order = torch.empty((T * top, K), dtype=x.dtype, device=x.device)
    each = torch.empty((T * top, N), dtype=x.dtype, device=x.device)
    out = torch.empty((T, N), dtype=x.dtype, device=x.device)
    places = torch.empty_like(slots)
    permute_kernel[(T * top,)](x, slots, in_order, places, K, top, 512)
    experts_kernel[(PROGRAMS,)](
        in_order, w, offsets, each, E, N, K, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    combine_kernel[(triton.cdiv(N, 256), T)](each, gates, places, out, N, top, 256)
    return out
