"""Batch normalisation in three launches: moments of planes, merged by channel, then a flat map."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.batch_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [64, 128, 256, 512, 1024, 2048],
    "ELEMENTS": [256, 512, 1024, 2048],
    "PLANES": [16, 64, 256],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 3],
}


@triton.jit
def plane_kernel(x_ptr, mean_ptr, m2_ptr, HW, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    sums = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, HW, BLOCK):
        pixel = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + plane * HW + pixel, mask=pixel < HW, other=0.0).to(tl.float32)
        sums += x
        squares += x * x
    mean = tl.sum(sums, axis=0) / HW
    tl.store(mean_ptr + plane, mean)
    tl.store(m2_ptr + plane, tl.sum(squares, axis=0) - HW * mean * mean)


@triton.jit
def merge_kernel(
    mean_ptr, m2_ptr, weight_ptr, bias_ptr, scale_ptr, shift_ptr, B, C, HW, eps,
    PLANES: tl.constexpr,
):  # fmt: skip
    channel = tl.program_id(0)
    means = tl.zeros((PLANES,), tl.float32)
    spread = tl.zeros((PLANES,), tl.float32)
    for first in range(0, B, PLANES):
        image = first + tl.arange(0, PLANES)
        plane = image * C + channel
        mean = tl.load(mean_ptr + plane, mask=image < B, other=0.0)
        m2 = tl.load(m2_ptr + plane, mask=image < B, other=0.0)
        means += mean
        spread += m2 + HW * mean * mean
    mean = tl.sum(means, axis=0) / B
    variance = tl.sum(spread, axis=0) / (B * HW) - mean * mean
    scale = tl.load(weight_ptr + channel) * tl.rsqrt(variance + eps)
    tl.store(scale_ptr + channel, scale)
    tl.store(shift_ptr + channel, tl.load(bias_ptr + channel) - mean * scale)


@triton.jit
def map_kernel(x_ptr, scale_ptr, shift_ptr, out_ptr, size, C, HW, ELEMENTS: tl.constexpr):
    at = tl.program_id(0) * ELEMENTS + tl.arange(0, ELEMENTS)
    channel = at // HW % C
    x = tl.load(x_ptr + at, mask=at < size).to(tl.float32)
    scale = tl.load(scale_ptr + channel, mask=at < size)
    shift = tl.load(shift_ptr + channel, mask=at < size)
    tl.store(out_ptr + at, (x * scale + shift).to(out_ptr.dtype.element_ty), mask=at < size)


def valid(params, shape):
    """One to 32 values a thread, no block far longer than a plane, nor vector than the batch."""
    threads = 32 * params["num_warps"]
    near = params["BLOCK"] <= max(128, 2 * shape["HW"])
    near = near and params["PLANES"] <= max(16, 2 * shape["B"])
    return near and all(1 <= params[key] / threads <= 32 for key in ("BLOCK", "ELEMENTS"))


def kernel(x, weight, bias, *, BLOCK=128, ELEMENTS=1024, PLANES=16, num_warps=4, num_stages=1):
    B, C, HW = x.shape
    out = torch.empty_like(x)
    means, m2s = torch.empty((2, B * C), dtype=torch.float32, device=x.device)
    scale, shift = torch.empty((2, C), dtype=torch.float32, device=x.device)
    plane_kernel[(B * C,)](x, means, m2s, HW, BLOCK, num_warps=num_warps, num_stages=num_stages)
    merge_kernel[(C,)](means, m2s, weight, bias, scale, shift, B, C, HW, EPS, PLANES, num_warps=1)
    map_kernel[(triton.cdiv(B * C * HW, ELEMENTS),)](
        x, scale, shift, out, B * C * HW, C, HW, ELEMENTS, num_warps=num_warps
    )
    return out
