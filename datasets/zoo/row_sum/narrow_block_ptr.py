"""Tall narrow tiles through a block pointer that advances along the rows."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.row_sum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [8, 16, 32, 64, 128],
    "BLOCK": [8, 16, 32, 64, 128],
    "STAGES": [1, 2, 4],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def row_sum_narrow_kernel(
    x_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr
):
    top = tl.program_id(0) * ROWS
    tile = tl.make_block_ptr(x_ptr, (M, N), (N, 1), (top, 0), (ROWS, BLOCK), (1, 0))
    total = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for _ in tl.range(0, tl.cdiv(N, BLOCK), num_stages=STAGES):
        x = tl.load(tile, boundary_check=(0, 1), padding_option="zero")
        total = total + x.to(tl.float32)
        tile = tl.advance(tile, (0, BLOCK))
    rows = top + tl.arange(0, ROWS)
    tl.store(out_ptr + rows, tl.sum(total, axis=1), mask=rows < M)


def valid(params, shape):
    """Two to 64 values a thread, and not more than 2500 steps along a row."""
    held = params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"])
    return 2 <= held <= 64 and shape["N"] / params["BLOCK"] <= 2500


def kernel(x, *, ROWS=8, BLOCK=128, STAGES=2, num_warps=4):
    M, N = x.shape
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    grid = (triton.cdiv(M, ROWS),)
    row_sum_narrow_kernel[grid](x, out, M, N, ROWS, BLOCK, STAGES, num_warps=num_warps)
    return out
