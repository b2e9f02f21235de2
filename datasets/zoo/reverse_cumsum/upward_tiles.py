"""A band of columns a program, tile by tile from the last step up; reversed scans of tiles."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.reverse_cumsum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "STEPS": [1, 4, 16, 32, 64],
    "COLS": [16, 32, 64, 128],
    "num_warps": [1, 2, 4],
}


@triton.jit
def upward_kernel(x_ptr, out_ptr, T, C, STEPS: tl.constexpr, COLS: tl.constexpr):
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    base = tl.program_id(1).to(tl.int64) * T * C
    carry = tl.zeros((1, COLS), dtype=tl.float32)
    for done in range(0, T, STEPS):
        t = T - done - STEPS + tl.arange(0, STEPS)[:, None]
        inside = (t >= 0) & (cols < C)
        x = tl.load(x_ptr + base + t * C + cols, mask=inside, other=0.0).to(tl.float32)
        sums = tl.cumsum(x, axis=0, reverse=True) + carry
        tl.store(out_ptr + base + t * C + cols, sums.to(x_ptr.dtype.element_ty), mask=inside)
        carry += tl.sum(x, axis=0, keep_dims=True)


def valid(params, shape):
    """One to 32 elements a thread; no band far wider than a row; at most 4,096 tiles up."""
    each = params["STEPS"] * params["COLS"] / (32 * params["num_warps"])
    fits = params["COLS"] < 2 * shape["C"] and shape["T"] <= 4096 * params["STEPS"]
    return 1 <= each <= 32 and fits


def kernel(x, *, STEPS=32, COLS=32, num_warps=1):
    B, T, C = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(C, COLS), B)
    upward_kernel[grid](x, out, T, C, STEPS, COLS, num_warps=num_warps)
    return out
