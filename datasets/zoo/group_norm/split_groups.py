"""Group normalisation with groups split: sums by atomics, then one program a piece of a channel."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.group_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PART": [1024, 2048, 4096, 8192, 16384],
    "BLOCK": [256, 512, 1024, 2048],
    "PIXELS": [64, 256, 1024, 4096],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 3],
}


@triton.jit
def sums_kernel(x_ptr, sum_ptr, size, PART: tl.constexpr, BLOCK: tl.constexpr):
    group = tl.program_id(1)
    first = tl.program_id(0) * PART
    s1 = tl.zeros((BLOCK,), tl.float32)
    s2 = tl.zeros((BLOCK,), tl.float32)
    for start in range(first, min(first + PART, size), BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + group.to(tl.int64) * size + at, mask=at < size, other=0.0)
        s1 += x.to(tl.float32)
        s2 += x.to(tl.float32) * x.to(tl.float32)
    tl.atomic_add(sum_ptr + 2 * group, tl.sum(s1, axis=0), sem="relaxed")
    tl.atomic_add(sum_ptr + 2 * group + 1, tl.sum(s2, axis=0), sem="relaxed")


@triton.jit
def apply_kernel(
    x_ptr, sum_ptr, weight_ptr, bias_ptr, out_ptr, C, HW, CHANNELS, eps, PIXELS: tl.constexpr
):
    image_channel = tl.program_id(0)  # of B * C
    group = image_channel // CHANNELS
    size = CHANNELS * HW
    mean = tl.load(sum_ptr + 2 * group) / size
    variance = tl.load(sum_ptr + 2 * group + 1) / size - mean * mean
    scale = tl.load(weight_ptr + image_channel % C).to(tl.float32) * tl.rsqrt(variance + eps)
    shift = tl.load(bias_ptr + image_channel % C).to(tl.float32) - mean * scale
    pixel = tl.program_id(1) * PIXELS + tl.arange(0, PIXELS)
    at = image_channel.to(tl.int64) * HW + pixel
    x = tl.load(x_ptr + at, mask=pixel < HW).to(tl.float32)
    tl.store(out_ptr + at, (x * scale + shift).to(out_ptr.dtype.element_ty), mask=pixel < HW)


def valid(params, shape):
    """At most 32 values a thread, blocks within parts, parts not far longer than groups."""
    size = shape["C"] // shape["G"] * shape["HW"]
    threads = 32 * params["num_warps"]
    within = params["BLOCK"] <= params["PART"] < max(2 * size, 2048)
    near = params["PIXELS"] <= max(256, 2 * shape["HW"])
    full = 1 <= params["BLOCK"] / threads <= 32 and 0.5 <= params["PIXELS"] / threads <= 32
    return within and near and full


def kernel(x, weight, bias, groups, *, PART=1024, BLOCK=512, PIXELS=256, num_warps=4, num_stages=1):
    B, C, HW = x.shape
    out = torch.empty_like(x)
    size = C // groups * HW
    sums = torch.zeros((B * groups, 2), dtype=torch.float32, device=x.device)
    sums_kernel[(triton.cdiv(size, PART), B * groups)](
        x, sums, size, PART, BLOCK, num_warps=num_warps, num_stages=num_stages
    )
    apply_kernel[(B * C, triton.cdiv(HW, PIXELS))](
        x, sums, weight, bias, out, C, HW, C // groups, EPS, PIXELS, num_warps=num_warps
    )
    return out
