"""Tiles of results; each of the four neighbours is gathered for all of them."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.bilinear_resize.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "COLS": [32, 64, 128, 256],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def resize_kernel(
    x_ptr, out_ptr, H, W, high, wide, scale_y, scale_x, ROWS: tl.constexpr, COLS: tl.constexpr
):
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    x_ptr += tl.program_id(2).to(tl.int64) * H * W
    out_ptr += tl.program_id(2).to(tl.int64) * high * wide
    inside = (row < high) & (col < wide)
    y = tl.maximum((row + 0.5) * scale_y - 0.5, 0.0)
    x = tl.maximum((col + 0.5) * scale_x - 0.5, 0.0)
    top = tl.minimum(y.to(tl.int32), H - 1)
    left = tl.minimum(x.to(tl.int32), W - 1)
    low = tl.minimum(top + 1, H - 1)
    right = tl.minimum(left + 1, W - 1)
    nw = tl.load(x_ptr + top * W + left, mask=inside, other=0.0).to(tl.float32)
    ne = tl.load(x_ptr + top * W + right, mask=inside, other=0.0).to(tl.float32)
    sw = tl.load(x_ptr + low * W + left, mask=inside, other=0.0).to(tl.float32)
    se = tl.load(x_ptr + low * W + right, mask=inside, other=0.0).to(tl.float32)
    across = x - left
    down = y - top
    north = nw + across * (ne - nw)
    south = sw + across * (se - sw)
    out = north + down * (south - north)
    tl.store(out_ptr + row * wide + col, out.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 16 results a thread; no tile far larger than a plane."""
    held = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    return 1 <= held <= 16 and params["COLS"] < 2 * shape["OW"]


def kernel(x, high, wide, *, ROWS=4, COLS=64, num_warps=4):
    P, H, W = x.shape
    out = torch.empty((P, high, wide), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(wide, COLS), triton.cdiv(high, ROWS), P)
    resize_kernel[grid](
        x, out, H, W, high, wide, H / high, W / wide, ROWS, COLS, num_warps=num_warps
    )
    return out
