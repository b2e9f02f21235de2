"""Three kernels: tiles are scanned, one program carries open runs on, their heads get it added."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.segmented_cumsum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [512, 1024, 2048, 4096],
    "WIDE": [512, 2048],
    "num_warps": [2, 4, 8],
}


@triton.jit
def join_runs(a_mark, a_sum, b_mark, b_sum):
    return a_mark | b_mark, tl.where(b_mark != 0, b_sum, a_sum + b_sum)


@triton.jit
def tile_kernel(x_ptr, marks_ptr, out_ptr, first_ptr, tail_ptr, N, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0) * BLOCK + i
    x = tl.load(x_ptr + at, mask=at < N, other=0.0).to(tl.float32)
    mark = tl.load(marks_ptr + at, mask=at < N, other=0).to(tl.int32)
    _, sums = tl.associative_scan((mark, x), 0, join_runs)
    tl.store(out_ptr + at, sums, mask=at < N)
    tl.store(first_ptr + tl.program_id(0), tl.min(tl.where(mark != 0, i, BLOCK), axis=0))
    tl.store(tail_ptr + tl.program_id(0), tl.sum(tl.where(i == BLOCK - 1, sums, 0.0), axis=0))


@triton.jit
def carry_kernel(first_ptr, tail_ptr, carry_ptr, tiles, BLOCK, WIDE: tl.constexpr):
    carry = 0.0
    i = tl.arange(0, WIDE)
    for start in range(0, tiles, WIDE):
        at = start + i
        mark = (tl.load(first_ptr + at, mask=at < tiles, other=BLOCK) < BLOCK).to(tl.int32)
        tail = tl.load(tail_ptr + at, mask=at < tiles, other=0.0)
        tail += tl.where((i == 0) & (mark == 0), carry, 0.0)
        _, sums = tl.associative_scan((mark, tail), 0, join_runs)
        tl.store(carry_ptr + at, sums, mask=at < tiles)
        carry = tl.sum(tl.where(i == WIDE - 1, sums, 0.0), axis=0)


@triton.jit
def head_kernel(out_ptr, first_ptr, carry_ptr, N, BLOCK: tl.constexpr):
    tile = tl.program_id(0) + 1
    first = tl.load(first_ptr + tile)
    if first > 0:
        i = tl.arange(0, BLOCK)
        at = tile * BLOCK + i
        wanted = (at < N) & (i < first)
        sums = tl.load(out_ptr + at, mask=wanted, other=0.0)
        tl.store(out_ptr + at, sums + tl.load(carry_ptr + tile - 1), mask=wanted)


def valid(params, shape):
    """Four to 32 elements a thread."""
    return 4 <= params["BLOCK"] / (32 * params["num_warps"]) <= 32


def kernel(x, marks, *, BLOCK=2048, WIDE=2048, num_warps=4):
    N = x.shape[0]
    tiles = triton.cdiv(N, BLOCK)
    out = torch.empty(N, dtype=torch.float32, device=x.device)
    first = torch.empty(tiles, dtype=torch.int32, device=x.device)
    tail, carry = torch.empty((2, tiles), dtype=torch.float32, device=x.device)
    tile_kernel[(tiles,)](x, marks, out, first, tail, N, BLOCK, num_warps=num_warps)
    carry_kernel[(1,)](first, tail, carry, tiles, BLOCK, WIDE, num_warps=8)
    if tiles > 1:
        head_kernel[(tiles - 1,)](out, first, carry, N, BLOCK, num_warps=num_warps)
    return out
