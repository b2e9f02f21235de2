"""Group normalisation in tiles of channels by pixels, two sweeps over a group by block pointers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.group_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "TILE_C": [1, 2, 4, 8, 16],
    "TILE_P": [32, 64, 128, 256, 512, 1024],
    "LANE_SUMS": [True, False],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def channel_tiles_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, C, HW, CHANNELS, GROUPS, eps, TILE_C: tl.constexpr,
    TILE_P: tl.constexpr, LANE_SUMS: tl.constexpr,
):  # fmt: skip
    image, group = tl.program_id(1).to(tl.int64), tl.program_id(0)
    first = (image * C + group * CHANNELS) * HW
    shape, strides = (CHANNELS, HW), (HW, 1)
    s1 = tl.zeros((TILE_C, TILE_P), tl.float32) if LANE_SUMS else 0.0
    s2 = tl.zeros((TILE_C, TILE_P), tl.float32) if LANE_SUMS else 0.0
    for c in range(0, CHANNELS, TILE_C):
        tile = tl.make_block_ptr(x_ptr + first, shape, strides, (c, 0), (TILE_C, TILE_P), (1, 0))
        for _ in range(0, HW, TILE_P):
            x = tl.load(tile, boundary_check=(0, 1), padding_option="zero").to(tl.float32)
            s1 += x if LANE_SUMS else tl.sum(x)
            s2 += x * x if LANE_SUMS else tl.sum(x * x)
            tile = tl.advance(tile, (0, TILE_P))
    mean = (tl.sum(s1) if LANE_SUMS else s1) / (CHANNELS * HW)
    square = (tl.sum(s2) if LANE_SUMS else s2) / (CHANNELS * HW)
    rstd = tl.rsqrt(square - mean * mean + eps)
    for c in range(0, CHANNELS, TILE_C):
        channel = c + tl.arange(0, TILE_C)
        at = group * CHANNELS + channel
        weight = tl.load(weight_ptr + at, mask=channel < CHANNELS, other=0.0).to(tl.float32)
        bias = tl.load(bias_ptr + at, mask=channel < CHANNELS, other=0.0).to(tl.float32)
        scale = (weight * rstd)[:, None]
        shift = bias[:, None] - mean * scale
        tile = tl.make_block_ptr(x_ptr + first, shape, strides, (c, 0), (TILE_C, TILE_P), (1, 0))
        result = tl.make_block_ptr(
            out_ptr + first, shape, strides, (c, 0), (TILE_C, TILE_P), (1, 0)
        )
        for _ in range(0, HW, TILE_P):
            x = tl.load(tile, boundary_check=(0, 1)).to(tl.float32)
            out = (x * scale + shift).to(out_ptr.dtype.element_ty)
            tl.store(result, out, boundary_check=(0, 1))
            tile = tl.advance(tile, (0, TILE_P))
            result = tl.advance(result, (0, TILE_P))


def valid(params, shape):
    """One to 32 values a thread; tiles not far larger than groups, nor tiny parts of them."""
    channels = shape["C"] // shape["G"]
    tile = params["TILE_C"] * params["TILE_P"]
    within = params["TILE_C"] < 2 * channels and params["TILE_P"] <= 2 * shape["HW"]
    steps = channels * shape["HW"] / tile
    return within and 1 <= tile / (32 * params["num_warps"]) <= 32 and steps <= 1024


def kernel(
    x, weight, bias, groups, *, TILE_C=2, TILE_P=128, LANE_SUMS=True, num_warps=4, num_stages=2
):
    B, C, HW = x.shape
    out = torch.empty_like(x)
    channel_tiles_kernel[(groups, B)](
        x, weight, bias, out, C, HW, C // groups, groups, EPS, TILE_C, TILE_P, LANE_SUMS,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
