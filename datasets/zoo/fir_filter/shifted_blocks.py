"""Blocks of results; tap by tap the block is loaded again, one place earlier."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.fir_filter.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [256, 512, 1024, 2048],
    "TAPS_AT_ONCE": [1, 4, 8],
    "num_warps": [2, 4, 8],
}


@triton.jit
def filter_kernel(x_ptr, taps_ptr, out_ptr, T, K, BLOCK: tl.constexpr, TAPS_AT_ONCE: tl.constexpr):
    start = tl.program_id(1).to(tl.int64) * T
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(0, K, TAPS_AT_ONCE):
        for j in tl.static_range(TAPS_AT_ONCE):
            k = first + j
            tap = tl.load(taps_ptr + k, mask=k < K, other=0.0)
            there = (t >= k) & (t - k < T)
            total += tap * tl.load(x_ptr + start + t - k, mask=there, other=0.0).to(tl.float32)
    tl.store(out_ptr + start + t, total.to(out_ptr.dtype.element_ty), mask=t < T)


def valid(params, shape):
    """Two to 16 results a thread; no block far longer than a signal."""
    held = params["BLOCK"] / (32 * params["num_warps"])
    return 2 <= held <= 16 and params["BLOCK"] < 2 * shape["T"]


def kernel(x, taps, *, BLOCK=512, TAPS_AT_ONCE=4, num_warps=4):
    B, T = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(T, BLOCK), B)
    filter_kernel[grid](x, taps, out, T, taps.shape[0], BLOCK, TAPS_AT_ONCE, num_warps=num_warps)
    return out
