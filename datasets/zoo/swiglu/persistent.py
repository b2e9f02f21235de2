"""A fixed number of programs takes tiles in turn, in order or each a contiguous stretch of them."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.swiglu.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 4, 16],
    "BLOCK": [128, 256, 512, 1024],
    "PER_SM": [1, 2, 4, 8],
    "INTERLEAVED": [True, False],
    "num_warps": [2, 4, 8],
}
SMS = 132


@triton.jit
def swiglu_tile(packed_ptr, out_ptr, tile, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    across = tl.cdiv(N, BLOCK)
    rows = tile // across * ROWS + tl.arange(0, ROWS)
    cols = tile % across * BLOCK + tl.arange(0, BLOCK)
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    place = rows[:, None] * (2 * N) + cols[None, :]
    gate = tl.load(packed_ptr + place, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(packed_ptr + place + N, mask=inside, other=0.0).to(tl.float32)
    out = tl.fdiv(gate, 1.0 + tl.exp2(gate * -1.4426950408889634)) * up
    place = rows[:, None] * N + cols[None, :]
    tl.store(out_ptr + place, out.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def swiglu_persistent_kernel(
    packed_ptr, out_ptr, M, N, tiles,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, INTERLEAVED: tl.constexpr,
):  # fmt: skip
    mine, programs = tl.program_id(0), tl.num_programs(0)
    if INTERLEAVED:
        for tile in range(mine, tiles, programs):
            swiglu_tile(packed_ptr, out_ptr, tile, M, N, ROWS, BLOCK)
    else:
        share = tl.cdiv(tiles, programs)
        for tile in range(mine * share, min(mine * share + share, tiles)):
            swiglu_tile(packed_ptr, out_ptr, tile, M, N, ROWS, BLOCK)


def valid(params, shape):
    """One to 64 elements a thread, no block far longer than a row."""
    held = params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 64 and params["BLOCK"] < 2 * shape["N"]


def kernel(packed, *, ROWS=4, BLOCK=256, PER_SM=4, INTERLEAVED=True, num_warps=4):
    M, N = packed.shape[0], packed.shape[1] // 2
    out = torch.empty((M, N), dtype=packed.dtype, device=packed.device)
    tiles = triton.cdiv(M, ROWS) * triton.cdiv(N, BLOCK)
    swiglu_persistent_kernel[(min(tiles, PER_SM * SMS),)](
        packed, out, M, N, tiles, ROWS, BLOCK, INTERLEAVED, num_warps=num_warps
    )
    return out
