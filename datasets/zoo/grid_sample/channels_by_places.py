"""Tiles of channels by places; a corner after another is gathered for all."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.grid_sample.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "CHANNELS": [1, 2, 4, 8, 16],
    "PLACES": [32, 64, 128, 256],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def sample_kernel(
    x_ptr, places_ptr, out_ptr, C, H, W, count, CHANNELS: tl.constexpr, PLACES: tl.constexpr
):
    image = tl.program_id(2)
    p = tl.program_id(0) * PLACES + tl.arange(0, PLACES)
    c = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    place = places_ptr + 2 * (image * count + p)
    across = ((tl.load(place, mask=p < count, other=0.0) + 1.0) * W - 1.0) * 0.5
    down = ((tl.load(place + 1, mask=p < count, other=0.0) + 1.0) * H - 1.0) * 0.5
    left = tl.floor(across)
    top = tl.floor(down)
    plane = (image * C + c)[:, None].to(tl.int64)
    total = tl.zeros((CHANNELS, PLACES), dtype=tl.float32)
    for corner in tl.static_range(4):
        column = left.to(tl.int32) + corner % 2
        row = top.to(tl.int32) + corner // 2
        weight = (1.0 - tl.abs(across - column)) * (1.0 - tl.abs(down - row))
        there = (column >= 0) & (column < W) & (row >= 0) & (row < H) & (p < count)
        mask = there[None, :] & (c[:, None] < C)
        x = tl.load(x_ptr + plane * (H * W) + (row * W + column)[None, :], mask=mask, other=0.0)
        total += weight[None, :] * x.to(tl.float32)
    mask = (p[None, :] < count) & (c[:, None] < C)
    at = plane * count + p[None, :]
    tl.store(out_ptr + at, total.to(out_ptr.dtype.element_ty), mask=mask)


def valid(params, shape):
    """One to 16 results a thread; not far more channels than there are, but for the default."""
    held = params["CHANNELS"] * params["PLACES"] / (32 * params["num_warps"])
    return 1 <= held <= 16 and (params["CHANNELS"] < 2 * shape["C"] or params["CHANNELS"] == 4)


def kernel(x, places, *, CHANNELS=4, PLACES=64, num_warps=4):
    B, C, H, W = x.shape
    count = places.shape[1]
    out = torch.empty((B, C, count), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(count, PLACES), triton.cdiv(C, CHANNELS), B)
    sample_kernel[grid](x, places, out, C, H, W, count, CHANNELS, PLACES, num_warps=num_warps)
    return out
