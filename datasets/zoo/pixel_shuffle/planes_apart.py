"""A tile of one input channel a program, spread over every R-th pixel of the result."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.pixel_shuffle.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_H": [1, 2, 4, 8, 16, 32],
    "BLOCK_W": [16, 32, 64, 128, 256],
    "WALK": [1, 2, 4],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def spreading_kernel(
    x_ptr, out_ptr, H, W, R: tl.constexpr,
    BLOCK_H: tl.constexpr, BLOCK_W: tl.constexpr, WALK: tl.constexpr,
):  # fmt: skip
    channel = tl.program_id(0)
    plane, i, j = channel // (R * R), channel // R % R, channel % R
    z = tl.program_id(2) * BLOCK_W + tl.arange(0, BLOCK_W)[None, :]
    x_ptr += channel * H * W
    out_ptr += plane * H * W * R * R + i * W * R + j
    for step in tl.static_range(WALK):
        y = (tl.program_id(1) * WALK + step) * BLOCK_H + tl.arange(0, BLOCK_H)[:, None]
        inside = (y < H) & (z < W)
        x = tl.load(x_ptr + y * W + z, mask=inside)
        tl.store(out_ptr + y * (W * R * R) + z * R, x, mask=inside)


def valid(params, shape):
    """One to 32 elements a thread; tiles not far larger than the plane."""
    h, w = params["BLOCK_H"], params["BLOCK_W"]
    fits = h * params["WALK"] < 2 * shape["H"] and w < 2 * shape["W"]
    return fits and 1 <= h * w / (32 * params["num_warps"]) <= 32


def kernel(x, factor, *, BLOCK_H=8, BLOCK_W=16, WALK=1, num_warps=4):
    B, channels, H, W = x.shape
    C = channels // factor**2
    out = torch.empty((B, C, H * factor, W * factor), dtype=x.dtype, device=x.device)
    grid = (B * channels, triton.cdiv(H, BLOCK_H * WALK), triton.cdiv(W, BLOCK_W))
    spreading_kernel[grid](x, out, H, W, factor, BLOCK_H, BLOCK_W, WALK, num_warps=num_warps)
    return out
