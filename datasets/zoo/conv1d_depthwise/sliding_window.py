"""A stretch of time a program, walked step by step: the last three inputs stay in registers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.conv1d_depthwise.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "STRETCH": [8, 16, 32, 64, 128, 256],
    "BLOCK_C": [32, 64, 128, 256, 512, 1024],
    "UNROLL": [1, 4],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def silu(x):
    return x / (1.0 + tl.exp(-x))


@triton.jit
def earlier(x_ptr, t, c, C):
    return tl.load(x_ptr + t * C + c, mask=(c < C) & (t >= 0), other=0.0).to(tl.float32)


@triton.jit
def walking_kernel(
    x_ptr, weight_ptr, out_ptr, T, C,
    STRETCH: tl.constexpr, BLOCK_C: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    first = tl.program_id(1) * STRETCH
    x_ptr += tl.program_id(2) * T * C
    out_ptr += tl.program_id(2) * T * C
    w0 = tl.load(weight_ptr + c * 4, mask=c < C, other=0.0).to(tl.float32)
    w1 = tl.load(weight_ptr + c * 4 + 1, mask=c < C, other=0.0).to(tl.float32)
    w2 = tl.load(weight_ptr + c * 4 + 2, mask=c < C, other=0.0).to(tl.float32)
    w3 = tl.load(weight_ptr + c * 4 + 3, mask=c < C, other=0.0).to(tl.float32)
    x0 = earlier(x_ptr, first - 3, c, C)
    x1 = earlier(x_ptr, first - 2, c, C)
    x2 = earlier(x_ptr, first - 1, c, C)
    for t in tl.range(first, min(first + STRETCH, T), loop_unroll_factor=UNROLL):
        x3 = tl.load(x_ptr + t * C + c, mask=c < C, other=0.0).to(tl.float32)
        y = silu(x0 * w0 + x1 * w1 + x2 * w2 + x3 * w3)
        tl.store(out_ptr + t * C + c, y.to(out_ptr.dtype.element_ty), mask=c < C)
        x0, x1, x2 = x1, x2, x3


def valid(params, shape):
    """One to 8 channels a thread; stretches and blocks not far larger than what there is."""
    fits = params["STRETCH"] < 2 * shape["T"] and params["BLOCK_C"] < 2 * shape["C"]
    return fits and 1 <= params["BLOCK_C"] / (32 * params["num_warps"]) <= 8


def kernel(x, weight, *, STRETCH=32, BLOCK_C=128, UNROLL=4, num_warps=1):
    B, T, C = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(C, BLOCK_C), triton.cdiv(T, STRETCH), B)
    walking_kernel[grid](x, weight, out, T, C, STRETCH, BLOCK_C, UNROLL, num_warps=num_warps)
    return out
