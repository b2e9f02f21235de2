"""Each element counts the ones that come before it, and goes to the place of that number.

The work is quadratic in the row's length, but needs no exchange between elements.
"""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.sort_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [32, 64, 128, 256],
    "OTHERS": [8, 16, 32, 64],
    "SPLIT": ["rows", "tiles"],
    "UNROLL": [1, 2],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def rank_block(x_ptr, out_ptr, N, start, BLOCK: tl.constexpr, OTHERS: tl.constexpr,
               UNROLL: tl.constexpr):  # fmt: skip
    place = start + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place, mask=place < N, other=0.0)
    before = tl.zeros((BLOCK, OTHERS), dtype=tl.int32)
    for first in tl.range(0, N, OTHERS, loop_unroll_factor=UNROLL):
        other = first + tl.arange(0, OTHERS)
        y = tl.load(x_ptr + other, mask=other < N, other=float("inf"))
        smaller = y[None, :] < x[:, None]
        tie = (y[None, :] == x[:, None]) & (other[None, :] < place[:, None])
        before += (smaller | tie).to(tl.int32)
    tl.store(out_ptr + tl.sum(before, axis=1), x, mask=place < N)


@triton.jit
def counting_kernel(
    x_ptr, out_ptr, N,
    BLOCK: tl.constexpr, OTHERS: tl.constexpr, SPLIT: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    x_ptr += tl.program_id(0) * N
    out_ptr += tl.program_id(0) * N
    if SPLIT == "tiles":
        rank_block(x_ptr, out_ptr, N, tl.program_id(1) * BLOCK, BLOCK, OTHERS, UNROLL)
    else:
        for start in range(0, N, BLOCK):
            rank_block(x_ptr, out_ptr, N, start, BLOCK, OTHERS, UNROLL)


def valid(params, shape):
    """One to 64 comparisons at a time and thread, under 6e9 in all; blocks that rows can fill."""
    block, others = params["BLOCK"], params["OTHERS"]
    fits = block < 2 * max(shape["N"], 32) and others < 2 * shape["N"]
    fits = fits and shape["M"] * shape["N"] ** 2 < 6e9
    return fits and 1 <= block * others / (32 * params["num_warps"]) <= 64


def kernel(x, *, BLOCK=32, OTHERS=32, SPLIT="tiles", UNROLL=1, num_warps=1):
    M, N = x.shape
    out = torch.empty_like(x)
    grid = (M, triton.cdiv(N, BLOCK) if SPLIT == "tiles" else 1)
    counting_kernel[grid](x, out, N, BLOCK, OTHERS, SPLIT, UNROLL, num_warps=num_warps)
    return out
