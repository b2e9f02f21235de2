"""A tile of pixels and channels a program; the nine taps are unrolled, each with a load."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.conv2d_depthwise.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PIXELS": [1, 2, 4, 8, 16, 32, 64],
    "BLOCK_C": [16, 32, 64, 128, 256],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def nine_kernel(
    x_ptr, weight_ptr, out_ptr, H, W, C, pixels, PIXELS: tl.constexpr, BLOCK_C: tl.constexpr
):
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    row, col = pixel // W % H, pixel % W
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = (pixel[:, None] < pixels) & (c[None, :] < C)
    acc = tl.zeros((PIXELS, BLOCK_C), dtype=tl.float32)
    for i in tl.static_range(3):
        for j in tl.static_range(3):
            y, z = row + i - 1, col + j - 1
            there = (y >= 0) & (y < H) & (z >= 0) & (z < W)
            at = pixel + (i - 1) * W + j - 1
            ptrs = x_ptr + at[:, None] * C + c[None, :]
            x = tl.load(ptrs, mask=inside & there[:, None], other=0.0)
            w = tl.load(weight_ptr + (i * 3 + j) * C + c, mask=c < C, other=0.0)
            acc += x.to(tl.float32) * w.to(tl.float32)[None, :]
    out = out_ptr + pixel[:, None] * C + c[None, :]
    tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 32 outputs a thread; channels not far more than there are."""
    each = params["PIXELS"] * params["BLOCK_C"] / (32 * params["num_warps"])
    return params["BLOCK_C"] < 2 * shape["C"] and 1 <= each <= 32


def kernel(x, weight, *, PIXELS=16, BLOCK_C=32, num_warps=4):
    B, H, W, C = x.shape
    out = torch.empty_like(x)
    pixels = B * H * W
    grid = (triton.cdiv(pixels, PIXELS), triton.cdiv(C, BLOCK_C))
    nine_kernel[grid](x, weight, out, H, W, C, pixels, PIXELS, BLOCK_C, num_warps=num_warps)
    return out
