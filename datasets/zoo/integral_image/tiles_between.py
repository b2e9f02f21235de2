"""Sums of tiles' rows and columns; torch.cumsum carries these on; then tiles are scanned twice."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.integral_image.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [16, 32, 64],
    "COLS": [32, 64, 128],
    "FLIPPED": [False, True],
    "num_warps": [4, 8],
}


@triton.jit
def edge_kernel(x_ptr, down_ptr, across_ptr, H, W, ROWS: tl.constexpr, COLS: tl.constexpr):
    i, j, b = tl.program_id(1), tl.program_id(0), tl.program_id(2)
    rows = i * ROWS + tl.arange(0, ROWS)
    cols = j * COLS + tl.arange(0, COLS)
    inside = (rows[:, None] < H) & (cols[None, :] < W)
    at = b.to(tl.int64) * H * W + rows[:, None] * W + cols[None, :]
    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    down = (b * tl.num_programs(1) + i) * W + cols
    tl.store(down_ptr + down, tl.sum(x, axis=0), mask=cols < W)
    across = (b * H + rows) * tl.num_programs(0) + j
    tl.store(across_ptr + across, tl.sum(x, axis=1), mask=rows < H)


@triton.jit
def tile_kernel(
    x_ptr, above_ptr, left_ptr, out_ptr, H, W,
    ROWS: tl.constexpr, COLS: tl.constexpr, FLIPPED: tl.constexpr,
):  # fmt: skip
    i, j, b = tl.program_id(1), tl.program_id(0), tl.program_id(2)
    rows = i * ROWS + tl.arange(0, ROWS)
    cols = j * COLS + tl.arange(0, COLS)
    inside = (rows[:, None] < H) & (cols[None, :] < W)
    at = b.to(tl.int64) * H * W + rows[:, None] * W + cols[None, :]
    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    above = tl.load(above_ptr + (b * tl.num_programs(1) + i) * W + cols, mask=cols < W, other=0.0)
    across = (b * H + rows) * tl.num_programs(0) + j
    left = tl.load(left_ptr + across, mask=rows < H, other=0.0)
    first: tl.constexpr = 1 if FLIPPED else 0
    sums = tl.cumsum(tl.cumsum(x, axis=first), axis=1 - first)
    sums += above[None, :] + tl.cumsum(left, axis=0)[:, None]
    tl.store(out_ptr + at, sums, mask=inside)


def valid(params, shape):
    """Four to 32 elements a thread."""
    return 4 <= params["ROWS"] * params["COLS"] / (32 * params["num_warps"]) <= 32


def kernel(x, *, ROWS=32, COLS=64, FLIPPED=False, num_warps=4):
    B, H, W = x.shape
    out = torch.empty((B, H, W), dtype=torch.float32, device=x.device)
    grid = (triton.cdiv(W, COLS), triton.cdiv(H, ROWS), B)
    down = torch.empty((B, grid[1], W), dtype=torch.float32, device=x.device)
    across = torch.empty((B, H, grid[0]), dtype=torch.float32, device=x.device)
    edge_kernel[grid](x, down, across, H, W, ROWS, COLS, num_warps=num_warps)
    above = (down.cumsum(1) - down).cumsum(2)
    left = across.cumsum(2) - across
    tile_kernel[grid](x, above, left, out, H, W, ROWS, COLS, FLIPPED, num_warps=num_warps)
    return out
