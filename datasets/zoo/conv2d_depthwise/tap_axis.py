"""The nine taps as an axis of the tile, padded to 16, gathered at once and summed away."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.conv2d_depthwise.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PIXELS": [1, 2, 4, 8, 16],
    "BLOCK_C": [16, 32, 64, 128, 256],
    "TAPS_LAST": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def gathering_kernel(
    x_ptr, weight_ptr, out_ptr, H, W, C, pixels,
    PIXELS: tl.constexpr, BLOCK_C: tl.constexpr, TAPS_LAST: tl.constexpr,
):  # fmt: skip
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)[:, None, None]
    if TAPS_LAST:
        c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :, None]
        place = tl.arange(0, 16)[None, None, :]
    else:
        place = tl.arange(0, 16)[None, :, None]
        c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, None, :]
    dy, dx = place // 3 - 1, place % 3 - 1
    row, col = pixel // W % H + dy, pixel % W + dx
    there = (row >= 0) & (row < H) & (col >= 0) & (col < W) & (pixel < pixels)
    at = (pixel + dy * W + dx) * C + c
    x = tl.load(x_ptr + at, mask=there & (c < C) & (place < 9), other=0.0).to(tl.float32)
    w = tl.load(weight_ptr + place * C + c, mask=(place < 9) & (c < C), other=0.0)
    acc = tl.sum(x * w.to(tl.float32), axis=2 if TAPS_LAST else 1)
    rows = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)[:, None]
    cols = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    inside = (rows < pixels) & (cols < C)
    tl.store(out_ptr + rows * C + cols, acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Two to 64 taps a thread; channels not far more than there are."""
    each = 16 * params["PIXELS"] * params["BLOCK_C"] / (32 * params["num_warps"])
    return params["BLOCK_C"] < 2 * shape["C"] and 2 <= each <= 64


def kernel(x, weight, *, PIXELS=4, BLOCK_C=32, TAPS_LAST=False, num_warps=4):
    B, H, W, C = x.shape
    out = torch.empty_like(x)
    pixels = B * H * W
    grid = (triton.cdiv(pixels, PIXELS), triton.cdiv(C, BLOCK_C))
    gathering_kernel[grid](
        x, weight, out, H, W, C, pixels, PIXELS, BLOCK_C, TAPS_LAST, num_warps=num_warps
    )
    return out
