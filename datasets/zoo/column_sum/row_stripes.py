"""A fixed number of programs, each over all columns of its own rows, then a fold of their sums."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.column_sum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PROGRAMS": [64, 132, 264, 528],
    "ROWS": [1, 2, 4, 8],
    "COLS": [128, 256, 512, 1024],
    "INTERLEAVED": [True, False],
    "num_warps": [2, 4, 8],
}
FOLD_COLS = 32


@triton.jit
def stripe_kernel(
    x_ptr, part_ptr, M, N, ROWS: tl.constexpr, COLS: tl.constexpr, INTERLEAVED: tl.constexpr
):
    mine, programs = tl.program_id(0), tl.num_programs(0)
    if INTERLEAVED:
        first, end, step = mine * ROWS, M, programs * ROWS
    else:
        share = tl.cdiv(tl.cdiv(M, programs), ROWS) * ROWS
        first, end, step = mine * share, tl.minimum(mine * share + share, M), ROWS
    for left in range(0, N, COLS):
        cols = left + tl.arange(0, COLS)
        total = tl.zeros((ROWS, COLS), dtype=tl.float32)
        for top in range(first, end, step):
            rows = top + tl.arange(0, ROWS)
            inside = (rows[:, None] < end) & (cols[None, :] < N)
            x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=inside, other=0.0)
            total += x.to(tl.float32)
        tl.store(part_ptr + mine * N + cols, tl.sum(total, axis=0), mask=cols < N)


@triton.jit
def fold_kernel(part_ptr, out_ptr, parts, N, PARTS: tl.constexpr, COLS: tl.constexpr):
    rows = tl.arange(0, PARTS)[:, None]
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    part = tl.load(part_ptr + rows * N + cols, mask=(rows < parts) & (cols < N), other=0.0)
    tl.store(out_ptr + cols, tl.sum(part, axis=0, keep_dims=True), mask=cols < N)


def valid(params, shape):
    """One to 64 values a thread, rows for every second program, at most 4000 steps in each."""
    held = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    rows = params["ROWS"] * params["PROGRAMS"] <= 2 * shape["M"] or params["ROWS"] <= 2
    down = shape["M"] / (params["PROGRAMS"] * params["ROWS"])
    across = shape["N"] / params["COLS"]
    return 1 <= held <= 64 and rows and across > 0.25 and down * max(across, 1) <= 4000


def kernel(x, *, PROGRAMS=528, ROWS=2, COLS=128, INTERLEAVED=True, num_warps=4):
    M, N = x.shape
    part = torch.empty((PROGRAMS, N), dtype=torch.float32, device=x.device)
    out = torch.empty(N, dtype=torch.float32, device=x.device)
    stripe_kernel[(PROGRAMS,)](x, part, M, N, ROWS, COLS, INTERLEAVED, num_warps=num_warps)
    block = triton.next_power_of_2(PROGRAMS)
    fold_kernel[(triton.cdiv(N, FOLD_COLS),)](part, out, PROGRAMS, N, block, FOLD_COLS, num_warps=8)
    return out
