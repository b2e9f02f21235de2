"""Tiles of pixels; all neighbours are loaded anew, at clamped places."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.sobel.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "COLS": [32, 64, 128, 256, 512],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def pixels(x_ptr, row, col, H, W, inside):
    above = tl.minimum(tl.maximum(row, 0), H - 1)
    beside = tl.minimum(tl.maximum(col, 0), W - 1)
    return tl.load(x_ptr + above * W + beside, mask=inside, other=0).to(tl.float32)


@triton.jit
def sobel_kernel(x_ptr, out_ptr, H, W, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    image = tl.program_id(2) * H * W
    x_ptr += image
    inside = (row < H) & (col < W)
    a = pixels(x_ptr, row - 1, col - 1, H, W, inside)
    b = pixels(x_ptr, row - 1, col, H, W, inside)
    c = pixels(x_ptr, row - 1, col + 1, H, W, inside)
    d = pixels(x_ptr, row, col - 1, H, W, inside)
    e = pixels(x_ptr, row, col + 1, H, W, inside)
    f = pixels(x_ptr, row + 1, col - 1, H, W, inside)
    g = pixels(x_ptr, row + 1, col, H, W, inside)
    h = pixels(x_ptr, row + 1, col + 1, H, W, inside)
    gx = c - a + 2 * (e - d) + h - f
    gy = f - a + 2 * (g - b) + h - c
    out = 0.125 * (tl.abs(gx) + tl.abs(gy))
    tl.store(out_ptr + image + row * W + col, out.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Two to 32 pixels a thread; no tile far wider than a row."""
    held = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    return 2 <= held <= 16 and params["COLS"] < 2 * shape["W"]


def kernel(x, *, ROWS=4, COLS=128, num_warps=4):
    B, H, W = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(W, COLS), triton.cdiv(H, ROWS), B)
    sobel_kernel[grid](x, out, H, W, ROWS, COLS, num_warps=num_warps)
    return out
