"""Tiles of places and columns, gathered from the rows of their tokens."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.moe_permute.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "COLS": [64, 128, 256, 512, 1024],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def tiles_kernel(x_ptr, choices_ptr, out_ptr, N, D, top, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.program_id(1) * COLS + tl.arange(0, COLS)
    token = tl.load(choices_ptr + row, mask=row < N, other=0) // top
    inside = (row[:, None] < N) & (d[None, :] < D)
    x = tl.load(x_ptr + token[:, None] * D + d[None, :], mask=inside, other=0.0)
    tl.store(out_ptr + row[:, None] * D + d[None, :], x, mask=inside)


def valid(params, shape):
    """Two to 32 values a thread, no tile far wider than a row."""
    held = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    return 2 <= held <= 32 and params["COLS"] < 2 * shape["D"]


def kernel(x, choices, places, top, *, ROWS=4, COLS=256, num_warps=4):
    N, D = choices.shape[0], x.shape[1]
    out = torch.empty((N, D), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(N, ROWS), triton.cdiv(D, COLS))
    tiles_kernel[grid](x, choices, out, N, D, top, ROWS, COLS, num_warps=num_warps)
    return out
