"""Two kernels: all of the result is filled with the constant, then the image copied into it."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.pad.problem import FILL, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "FILL_BLOCK": [1024, 4096],
    "ROWS": [1, 2, 4, 8, 16],
    "COLS": [16, 32, 64, 128, 256, 512],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def fill_kernel(out_ptr, total, FILL: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.full((BLOCK,), FILL, out_ptr.dtype.element_ty), mask=at < total)


@triton.jit
def middle_kernel(x_ptr, out_ptr, lines, H, W, P, ROWS: tl.constexpr, COLS: tl.constexpr):
    line = tl.program_id(0) * ROWS + tl.arange(0, ROWS)  # a row of some image
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)
    inside = (line[:, None] < lines) & (col[None, :] < W)
    x = tl.load(x_ptr + line[:, None] * W + col[None, :], mask=inside)
    high, wide = H + 2 * P, W + 2 * P
    place = (line // H * high + line % H + P) * wide + P
    tl.store(out_ptr + place[:, None] + col[None, :], x, mask=inside)


def valid(params, shape):
    """One to 32 elements a thread; tiles not far wider than the image."""
    each = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    return params["COLS"] <= 4 * shape["W"] and 1 <= each <= 32


def kernel(x, width, *, FILL_BLOCK=1024, ROWS=4, COLS=32, num_warps=2):
    C, H, W = x.shape
    out = torch.empty((C, H + 2 * width, W + 2 * width), dtype=x.dtype, device=x.device)
    total, lines = out.numel(), C * H
    fill_kernel[(triton.cdiv(total, FILL_BLOCK),)](out, total, FILL, FILL_BLOCK, num_warps=4)
    grid = (triton.cdiv(lines, ROWS), triton.cdiv(W, COLS))
    middle_kernel[grid](x, out, lines, H, W, width, ROWS, COLS, num_warps=num_warps)
    return out
