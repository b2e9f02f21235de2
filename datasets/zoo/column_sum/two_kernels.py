"""Programs add up stretches of rows, a second launch of the same kernel the stretches."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.column_sum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [4, 8, 16, 32],
    "COLS": [16, 32, 64, 128, 256],
    "LENGTH": [128, 512, 2048, 8192],
    "num_warps": [2, 4, 8],
}


@triton.jit
def stretch_kernel(x_ptr, part_ptr, M, N, LENGTH, ROWS: tl.constexpr, COLS: tl.constexpr):
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    first = tl.program_id(1) * LENGTH
    total = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for start in range(first, min(first + LENGTH, M), ROWS):
        rows = start + tl.arange(0, ROWS)
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=inside, other=0.0)
        total += x.to(tl.float32)
    tl.store(part_ptr + tl.program_id(1) * N + cols, tl.sum(total, axis=0), mask=cols < N)


def valid(params, shape):
    """One to 64 values a thread, no stretch far longer than all rows."""
    held = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    return 1 <= held <= 64 and (params["LENGTH"] < 2 * shape["M"] or params["LENGTH"] <= 512)


def kernel(x, *, ROWS=16, COLS=64, LENGTH=512, num_warps=4):
    M, N = x.shape
    parts = triton.cdiv(M, LENGTH)
    part = torch.empty((parts, N), dtype=torch.float32, device=x.device)
    out = torch.empty((1, N), dtype=torch.float32, device=x.device)
    grid = triton.cdiv(N, COLS)
    stretch_kernel[(grid, parts)](x, part, M, N, LENGTH, ROWS, COLS, num_warps=num_warps)
    stretch_kernel[(grid, 1)](part, out, parts, N, parts, ROWS, COLS, num_warps=num_warps)
    return out[0]
