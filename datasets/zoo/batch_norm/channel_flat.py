"""Batch normalisation with one program a channel, images and pixels as one flat run."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.batch_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [256, 512, 1024, 2048, 4096, 8192],
    "FUSED_SHIFT": [True, False],
    "FIRST_EVICT": ["", "evict_last"],
    "num_warps": [2, 4, 8, 16, 32],
    "num_stages": [1, 2, 3],
}


@triton.jit
def channel_flat_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, size, C, HW, eps, BLOCK: tl.constexpr,
    FUSED_SHIFT: tl.constexpr, FIRST_EVICT: tl.constexpr,
):  # fmt: skip
    channel = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, size, BLOCK):
        i = start + lanes
        at = (i // HW * C + channel) * HW + i % HW
        x = tl.load(x_ptr + at, mask=i < size, other=0.0, eviction_policy=FIRST_EVICT)
        sums += x.to(tl.float32)
        squares += x.to(tl.float32) * x.to(tl.float32)
    mean = tl.sum(sums, axis=0) / size
    rstd = tl.rsqrt(tl.sum(squares, axis=0) / size - mean * mean + eps)
    weight, bias = tl.load(weight_ptr + channel), tl.load(bias_ptr + channel)
    scale = weight * rstd
    shift = bias - mean * scale
    for start in range(0, size, BLOCK):
        i = start + lanes
        at = (i // HW * C + channel) * HW + i % HW
        x = tl.load(x_ptr + at, mask=i < size, other=0.0).to(tl.float32)
        out = x * scale + shift if FUSED_SHIFT else (x - mean) * rstd * weight + bias
        tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=i < size)


def valid(params, shape):
    """One to 32 values a thread, and no block far longer than what a channel has."""
    held = params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 32 and params["BLOCK"] < 2 * shape["B"] * shape["HW"]


def kernel(
    x, weight, bias, *, BLOCK=2048, FUSED_SHIFT=True, FIRST_EVICT="", num_warps=8, num_stages=2
):
    B, C, HW = x.shape
    out = torch.empty_like(x)
    channel_flat_kernel[(C,)](
        x, weight, bias, out, B * HW, C, HW, EPS, BLOCK, FUSED_SHIFT, FIRST_EVICT,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
