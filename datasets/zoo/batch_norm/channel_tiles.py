"""Batch normalisation with one program a channel, in tiles of images by pixels, in three sweeps."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.batch_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "IMAGES": [1, 2, 4, 8, 16, 32],
    "PIXELS": [64, 128, 256, 512, 1024, 2048],
    "CENTRED": [False, True],
    "num_warps": [2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}


@triton.jit
def channel_tiles_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, B, C, HW, eps, IMAGES: tl.constexpr,
    PIXELS: tl.constexpr, CENTRED: tl.constexpr,
):  # fmt: skip
    channel = tl.program_id(0)
    size = B * HW
    total = tl.zeros((IMAGES, PIXELS), tl.float32)
    squares = tl.zeros((IMAGES, PIXELS), tl.float32)
    for top in range(0, B, IMAGES):
        b = (top + tl.arange(0, IMAGES))[:, None]
        for left in range(0, HW, PIXELS):
            p = (left + tl.arange(0, PIXELS))[None, :]
            mask = (b < B) & (p < HW)
            x = tl.load(x_ptr + (b * C + channel) * HW + p, mask=mask, other=0.0).to(tl.float32)
            total += x
            squares += x * x
    mean = tl.sum(total) / size
    variance = tl.sum(squares) / size - mean * mean
    if CENTRED:  # a sweep of its own, which does not cancel where the mean is large
        squares = tl.zeros((IMAGES, PIXELS), tl.float32)
        for top in range(0, B, IMAGES):
            b = (top + tl.arange(0, IMAGES))[:, None]
            for left in range(0, HW, PIXELS):
                p = (left + tl.arange(0, PIXELS))[None, :]
                mask = (b < B) & (p < HW)
                x = tl.load(x_ptr + (b * C + channel) * HW + p, mask=mask, other=0.0)
                far = tl.where(mask, x.to(tl.float32) - mean, 0.0)
                squares += far * far
        variance = tl.sum(squares) / size
    scale = tl.load(weight_ptr + channel) / tl.sqrt(variance + eps)
    bias = tl.load(bias_ptr + channel)
    for top in range(0, B, IMAGES):
        b = (top + tl.arange(0, IMAGES))[:, None]
        for left in range(0, HW, PIXELS):
            p = (left + tl.arange(0, PIXELS))[None, :]
            mask = (b < B) & (p < HW)
            at = (b * C + channel) * HW + p
            x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
            out = ((x - mean) * scale + bias).to(out_ptr.dtype.element_ty)
            tl.store(out_ptr + at, out, mask=mask)


def valid(params, shape):
    """One to 32 values a thread; tiles not far larger than a channel, nor tiny parts of it."""
    tile = params["IMAGES"] * params["PIXELS"]
    within = params["IMAGES"] < 2 * shape["B"] and params["PIXELS"] <= max(256, 2 * shape["HW"])
    steps = triton.cdiv(shape["B"], params["IMAGES"]) * triton.cdiv(shape["HW"], params["PIXELS"])
    return within and steps <= 512 and 1 <= tile / (32 * params["num_warps"]) <= 32


def kernel(x, weight, bias, *, IMAGES=2, PIXELS=256, CENTRED=False, num_warps=4, num_stages=2):
    B, C, HW = x.shape
    out = torch.empty_like(x)
    channel_tiles_kernel[(C,)](
        x, weight, bias, out, B, C, HW, EPS, IMAGES, PIXELS, CENTRED,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
