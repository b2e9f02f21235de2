"""Batch normalisation in two launches: sums of channels by atomics, then a map over planes."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.batch_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PIXELS": [64, 128, 256, 512, 1024, 2048, 4096],
    "IMAGES": [1, 2, 4, 8],
    "MAP_PIXELS": [64, 256, 1024, 4096],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2],
}


@triton.jit
def sums_kernel(x_ptr, sum_ptr, square_ptr, B, C, HW, IMAGES: tl.constexpr, PIXELS: tl.constexpr):
    channel = tl.program_id(1)
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    total = tl.zeros((PIXELS,), tl.float32)
    squares = tl.zeros((PIXELS,), tl.float32)
    first = tl.program_id(2) * IMAGES
    for image in range(first, min(first + IMAGES, B)):
        plane = (image * C + channel) * HW
        x = tl.load(x_ptr + plane + pixel, mask=pixel < HW, other=0.0).to(tl.float32)
        total += x
        squares += x * x
    tl.atomic_add(sum_ptr + channel, tl.sum(total, axis=0), sem="relaxed")
    tl.atomic_add(square_ptr + channel, tl.sum(squares, axis=0), sem="relaxed")


@triton.jit
def map_kernel(
    x_ptr, sum_ptr, square_ptr, weight_ptr, bias_ptr, out_ptr, size, C, HW, eps,
    PIXELS: tl.constexpr,
):  # fmt: skip
    plane = tl.program_id(0)
    channel = plane % C
    mean = tl.load(sum_ptr + channel) / size
    variance = tl.load(square_ptr + channel) / size - mean * mean
    scale = tl.load(weight_ptr + channel) * tl.rsqrt(variance + eps)
    shift = tl.load(bias_ptr + channel) - mean * scale
    pixel = tl.program_id(1) * PIXELS + tl.arange(0, PIXELS)
    x = tl.load(x_ptr + plane * HW + pixel, mask=pixel < HW).to(tl.float32)
    out = (x * scale + shift).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + plane * HW + pixel, out, mask=pixel < HW)


def valid(params, shape):
    """Half to 32 values a thread, and no block far larger than a plane."""
    threads = 32 * params["num_warps"]
    keys = ("PIXELS", "MAP_PIXELS")
    near = all(params[key] <= max(256, 2 * shape["HW"]) for key in keys)
    full = all(0.5 <= params[key] / threads <= 32 for key in keys)
    return near and full and params["IMAGES"] <= shape["B"]


def kernel(x, weight, bias, *, PIXELS=256, IMAGES=2, MAP_PIXELS=256, num_warps=4, num_stages=1):
    B, C, HW = x.shape
    out = torch.empty_like(x)
    sums, squares = torch.zeros((2, C), dtype=torch.float32, device=x.device)
    sums_kernel[(triton.cdiv(HW, PIXELS), C, triton.cdiv(B, IMAGES))](
        x, sums, squares, B, C, HW, IMAGES, PIXELS, num_warps=num_warps, num_stages=num_stages
    )
    map_kernel[(B * C, triton.cdiv(HW, MAP_PIXELS))](
        x, sums, squares, weight, bias, out, B * HW, C, HW, EPS, MAP_PIXELS, num_warps=num_warps
    )
    return out
