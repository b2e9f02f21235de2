"""Rows cut into parts, each with its best value and place; a second kernel picks a part."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.argmax.problem import SHAPES, inputs, reference

__all__ = ["SHAPES", "SPACE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PARTS": [2, 4, 8, 16, 32, 64],
    "BLOCK": [256, 512, 1024, 2048, 4096],
    "ROWS_AFTER": [1, 8, 32],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def part_kernel(x_ptr, value_ptr, place_ptr, N, length, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    end = tl.minimum((part + 1) * length, N)
    best, place = float("-inf"), 0
    for start in range(part * length, end, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + cols, mask=cols < end, other=float("-inf"))
        found, where = tl.max(x, axis=0), tl.argmax(x, axis=0)
        place = tl.where(found > best, start + where, place)
        best = tl.maximum(best, found)
    tl.store(value_ptr + row * tl.num_programs(1) + part, best)
    tl.store(place_ptr + row * tl.num_programs(1) + part, place)


@triton.jit
def pick_kernel(value_ptr, place_ptr, out_ptr, M, ROWS: tl.constexpr, PARTS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = rows[:, None] * PARTS + tl.arange(0, PARTS)[None, :]
    value = tl.load(value_ptr + at, mask=(rows < M)[:, None], other=float("-inf"))
    part = tl.argmax(value, axis=1)
    place = tl.load(place_ptr + rows * PARTS + part, mask=rows < M, other=0)
    tl.store(out_ptr + rows, place.to(tl.int64), mask=rows < M)


def valid(params, shape):
    """One to 64 values a thread; long rows, in parts of half a block at least."""
    held = params["BLOCK"] / (32 * params["num_warps"])
    long = params["PARTS"] * params["BLOCK"] <= 2 * shape["N"] and shape["N"] >= 4096
    return 1 <= held <= 64 and long


def kernel(x, *, PARTS=4, BLOCK=1024, ROWS_AFTER=8, num_warps=4):
    M, N = x.shape
    value = torch.empty((M, PARTS), dtype=torch.float32, device=x.device)
    place = torch.empty((M, PARTS), dtype=torch.int32, device=x.device)
    length = triton.cdiv(N, PARTS)
    part_kernel[(M, PARTS)](x, value, place, N, length, BLOCK, num_warps=num_warps)
    out = torch.empty(M, dtype=torch.int64, device=x.device)
    pick_kernel[(triton.cdiv(M, ROWS_AFTER),)](value, place, out, M, ROWS_AFTER, PARTS)
    return out
