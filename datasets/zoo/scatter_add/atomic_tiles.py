"""Tiles of rows and columns, each value added with an atomic."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.scatter_add.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "BLOCK": [32, 64, 128, 256, 512, 1024],
    "ORDER": ["relaxed", "acq_rel"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def scatter_kernel(
    rows_ptr, index_ptr, out_ptr, T, D,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, ORDER: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (t[:, None] < T) & (d[None, :] < D)
    index = tl.load(index_ptr + t, mask=t < T, other=0)
    rows = tl.load(rows_ptr + t[:, None] * D + d[None, :], mask=inside, other=0.0)
    target = out_ptr + index[:, None] * D + d[None, :]
    tl.atomic_add(target, rows.to(tl.float32), mask=inside, sem=ORDER)


def valid(params, shape):
    """One to 32 elements a thread, and no block far longer than a row."""
    held = params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 32 and params["BLOCK"] < 2 * shape["D"]


def kernel(rows, index, like, *, ROWS=4, BLOCK=64, ORDER="relaxed", num_warps=4):
    T, D = rows.shape
    out = torch.zeros_like(like)
    grid = (triton.cdiv(T, ROWS), triton.cdiv(D, BLOCK))
    scatter_kernel[grid](rows, index, out, T, D, ROWS, BLOCK, ORDER, num_warps=num_warps)
    return out
