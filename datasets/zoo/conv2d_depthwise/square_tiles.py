"""Rectangles of an image a program, three-dimensional with the channels, images in the grid."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.conv2d_depthwise.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_H": [1, 2, 4, 8],
    "BLOCK_W": [1, 2, 4, 8, 16],
    "BLOCK_C": [16, 32, 64, 128],
    "CHANNELS_FIRST": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def rectangle_kernel(
    x_ptr, weight_ptr, out_ptr, H, W, C,
    BLOCK_H: tl.constexpr, BLOCK_W: tl.constexpr, BLOCK_C: tl.constexpr,
    CHANNELS_FIRST: tl.constexpr,
):  # fmt: skip
    tiles_w, tiles_c = tl.cdiv(W, BLOCK_W), tl.cdiv(C, BLOCK_C)
    tiles = tl.cdiv(H, BLOCK_H) * tiles_w
    if CHANNELS_FIRST:  # neighbours take other channels of one rectangle
        tile, block = tl.program_id(0) // tiles_c, tl.program_id(0) % tiles_c
    else:
        tile, block = tl.program_id(0) % tiles, tl.program_id(0) // tiles
    y = tile // tiles_w * BLOCK_H + tl.arange(0, BLOCK_H)[:, None, None]
    z = tile % tiles_w * BLOCK_W + tl.arange(0, BLOCK_W)[None, :, None]
    c = block * BLOCK_C + tl.arange(0, BLOCK_C)[None, None, :]
    image = tl.program_id(1) * H * W * C
    acc = tl.zeros((BLOCK_H, BLOCK_W, BLOCK_C), dtype=tl.float32)
    for dy in tl.static_range(-1, 2):
        known = (y + dy >= 0) & (y + dy < H) & (c < C)
        for dz in tl.static_range(-1, 2):
            mask = known & (z + dz >= 0) & (z + dz < W)
            x = tl.load(x_ptr + image + ((y + dy) * W + z + dz) * C + c, mask=mask, other=0.0)
            w = tl.load(weight_ptr + (3 * dy + dz + 4) * C + c, mask=c < C, other=0.0)
            acc += x.to(tl.float32) * w.to(tl.float32)
    inside = (y < H) & (z < W) & (c < C)
    out = out_ptr + image + (y * W + z) * C + c
    tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 32 outputs a thread; rectangles not far larger than the image."""
    h, w, c = params["BLOCK_H"], params["BLOCK_W"], params["BLOCK_C"]
    fits = h < 2 * shape["H"] and w < 2 * shape["W"] and c < 2 * shape["C"]
    return fits and 1 <= h * w * c / (32 * params["num_warps"]) <= 32


def kernel(x, weight, *, BLOCK_H=4, BLOCK_W=4, BLOCK_C=32, CHANNELS_FIRST=False, num_warps=4):
    B, H, W, C = x.shape
    out = torch.empty_like(x)
    tiles = triton.cdiv(H, BLOCK_H) * triton.cdiv(W, BLOCK_W) * triton.cdiv(C, BLOCK_C)
    rectangle_kernel[(tiles, B)](
        x, weight, out, H, W, C, BLOCK_H, BLOCK_W, BLOCK_C, CHANNELS_FIRST, num_warps=num_warps
    )
    return out
