"""Group normalisation: each program reads one group of channels as a flat run, twice."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.group_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [256, 512, 1024, 2048, 4096, 8192],
    "BACKWARDS": [False, True],
    "FIRST_EVICT": ["", "evict_last"],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}


@triton.jit
def group_norm_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, HW, CHANNELS, GROUPS, eps, BLOCK: tl.constexpr,
    BACKWARDS: tl.constexpr, FIRST_EVICT: tl.constexpr,
):  # fmt: skip
    size = CHANNELS * HW
    first = tl.program_id(0).to(tl.int64) * size
    channel = tl.program_id(0) % GROUPS * CHANNELS
    sums = tl.zeros((BLOCK,), dtype=tl.float32)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, size, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + first + at, mask=at < size, other=0.0, eviction_policy=FIRST_EVICT)
        sums += x.to(tl.float32)
        squares += x.to(tl.float32) * x.to(tl.float32)
    mean = tl.sum(sums, axis=0) / size
    scale = tl.rsqrt(tl.sum(squares, axis=0) / size - mean * mean + eps)
    last = (tl.cdiv(size, BLOCK) - 1) * BLOCK
    for start in range(0, size, BLOCK):
        at = (last - start if BACKWARDS else start) + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + first + at, mask=at < size, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + channel + at // HW, mask=at < size, other=0.0)
        bias = tl.load(bias_ptr + channel + at // HW, mask=at < size, other=0.0)
        out = (x - mean) * scale * weight.to(tl.float32) + bias.to(tl.float32)
        tl.store(out_ptr + first + at, out.to(out_ptr.dtype.element_ty), mask=at < size)


def valid(params, shape):
    """One to 32 values a thread, and no block far longer than a group."""
    size = shape["C"] // shape["G"] * shape["HW"]
    held = params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 32 and params["BLOCK"] < 2 * size <= 1024 * params["BLOCK"]


def kernel(
    x, weight, bias, groups, *, BLOCK=512, BACKWARDS=False, FIRST_EVICT="", num_warps=4,
    num_stages=2,
):  # fmt: skip
    B, C, HW = x.shape
    out = torch.empty_like(x)
    group_norm_kernel[(B * groups,)](
        x, weight, bias, out, HW, C // groups, groups, EPS, BLOCK, BACKWARDS, FIRST_EVICT,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
