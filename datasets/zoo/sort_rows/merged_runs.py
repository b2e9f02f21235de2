"""Merge sort: runs are sorted in registers, then merged in pairs until one is left.

In a merge each element finds by bisection how many of the other run precede it, and is stored at
the sum of both ranks: of equal elements those of the left run come first.
"""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.sort_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "RUN": [32, 64, 128, 256, 512],
    "MERGE_BLOCK": [128, 256, 512, 1024],
    "MERGE_WARPS": [1, 2, 4, 8],
    "num_warps": [1, 2, 4],
}


@triton.jit
def run_kernel(x_ptr, out_ptr, N, runs, RUN: tl.constexpr):
    row = tl.program_id(0) // runs
    cols = tl.program_id(0) % runs * RUN + tl.arange(0, RUN)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=float("inf"))
    tl.store(out_ptr + row * N + cols, tl.sort(x), mask=cols < N)


@triton.jit
def merge_kernel(x_ptr, out_ptr, N, total, length, STEPS, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    row, col = at // N * N, at % N
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    run = col // length
    left = run % 2 == 0
    other = tl.where(left, run + 1, run - 1) * length
    low = tl.minimum(other, N)
    high = tl.minimum(other + length, N)
    for _ in range(STEPS):
        middle = (low + high) // 2
        open_ = low < high
        y = tl.load(x_ptr + row + middle, mask=inside & open_, other=0.0)
        right = open_ & tl.where(left, y < x, y <= x)
        low = tl.where(right, middle + 1, low)
        high = tl.where(open_ & (right == 0), middle, high)
    rank = low - tl.minimum(other, N) + col % length
    target = row + run // 2 * 2 * length + rank
    tl.store(out_ptr + target, x, mask=inside)


def valid(params, shape):
    """One to 8 elements a thread; at least two runs a row."""
    sorted_each = params["RUN"] / (32 * params["num_warps"])
    merged_each = params["MERGE_BLOCK"] / (32 * params["MERGE_WARPS"])
    fits = params["RUN"] < shape["N"] or params["RUN"] == 32
    return fits and 1 <= sorted_each <= 16 and 1 <= merged_each <= 8


def kernel(x, *, RUN=32, MERGE_BLOCK=256, MERGE_WARPS=4, num_warps=1):
    M, N = x.shape
    out, spare = torch.empty_like(x), torch.empty_like(x)
    runs = triton.cdiv(N, RUN)
    run_kernel[(M * runs,)](x, out, N, runs, RUN, num_warps=num_warps)
    length, total = RUN, M * N
    while length < N:
        steps = length.bit_length()
        merge_kernel[(triton.cdiv(total, MERGE_BLOCK),)](
            out, spare, N, total, length, steps, MERGE_BLOCK, num_warps=MERGE_WARPS
        )
        out, spare = spare, out
        length *= 2
    return out
