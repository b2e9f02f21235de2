"""A block of channels a program, all moments one after the other, the state in registers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.first_order_scan.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [32, 64, 128, 256, 512],
    "UNROLL": [1, 2, 4, 8],
    "AHEAD": [False, True],
    "POLICY": ["", "evict_first"],
    "num_warps": [1, 2, 4],
}


@triton.jit
def stepping_kernel(
    a_ptr, x_ptr, y_ptr, T, C,
    BLOCK: tl.constexpr, UNROLL: tl.constexpr, AHEAD: tl.constexpr, POLICY: tl.constexpr,
):  # fmt: skip
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    known = c < C
    at = tl.program_id(1) * T * C + c
    state = tl.zeros((BLOCK,), dtype=tl.float32)
    next_a = tl.load(a_ptr + at, mask=known, other=0.0)
    next_x = tl.load(x_ptr + at, mask=known, other=0.0)
    for t in tl.range(0, T, loop_unroll_factor=UNROLL):
        if AHEAD:
            a, x = next_a, next_x
            more = known & (t + 1 < T)
            next_a = tl.load(a_ptr + at + C, mask=more, other=0.0, eviction_policy=POLICY)
            next_x = tl.load(x_ptr + at + C, mask=more, other=0.0, eviction_policy=POLICY)
        else:
            a = tl.load(a_ptr + at, mask=known, other=0.0, eviction_policy=POLICY)
            x = tl.load(x_ptr + at, mask=known, other=0.0, eviction_policy=POLICY)
        state = a.to(tl.float32) * state + x.to(tl.float32)
        tl.store(y_ptr + at, state.to(y_ptr.dtype.element_ty), mask=known)
        at += C


def valid(params, shape):
    """One to 4 channels a thread; blocks not far wider than the channels; up to 4096 moments."""
    fits = params["BLOCK"] < 2 * shape["C"] and shape["T"] <= 4096
    return fits and 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 4


def kernel(a, x, *, BLOCK=32, UNROLL=4, AHEAD=False, POLICY="", num_warps=1):
    B, T, C = x.shape
    y = torch.empty_like(x)
    grid = (triton.cdiv(C, BLOCK), B)
    stepping_kernel[grid](a, x, y, T, C, BLOCK, UNROLL, AHEAD, POLICY, num_warps=num_warps)
    return y
