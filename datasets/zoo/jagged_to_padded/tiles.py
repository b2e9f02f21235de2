"""Tiles of padded rows and columns; what lies past the end of a sequence loads as zero."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.jagged_to_padded.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "COLS": [16, 32, 64, 128, 256],
    "num_warps": [1, 2, 4],
}


@triton.jit
def tiles_kernel(values_ptr, offsets_ptr, out_ptr, L, D, ROWS: tl.constexpr, COLS: tl.constexpr):
    down = tl.cdiv(L, ROWS)
    sequence = tl.program_id(0) // down
    row = tl.program_id(0) % down * ROWS + tl.arange(0, ROWS)
    d = tl.program_id(1) * COLS + tl.arange(0, COLS)
    first = tl.load(offsets_ptr + sequence)
    many = tl.load(offsets_ptr + sequence + 1) - first
    inside = (row[:, None] < tl.minimum(many, L)) & (d[None, :] < D)
    from_ptrs = values_ptr + (first + row[:, None]) * D + d[None, :]
    values = tl.load(from_ptrs, mask=inside, other=0.0)
    to_ptrs = out_ptr + (sequence * L + row[:, None]) * D + d[None, :]
    tl.store(to_ptrs, values, mask=(row[:, None] < L) & (d[None, :] < D))


def valid(params, shape):
    """One to 16 values a thread, no tile far wider than a row."""
    held = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    return 1 <= held <= 16 and params["COLS"] < 2 * max(shape["D"], 32)


def kernel(values, offsets, length, *, ROWS=16, COLS=32, num_warps=2):
    B, D = offsets.shape[0] - 1, values.shape[1]
    out = torch.empty((B, length, D), dtype=values.dtype, device=values.device)
    grid = (B * triton.cdiv(length, ROWS), triton.cdiv(D, COLS))
    tiles_kernel[grid](values, offsets, out, length, D, ROWS, COLS, num_warps=num_warps)
    return out
