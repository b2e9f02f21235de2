"""Sums of chunks of steps; torch flips, sums up and flips these; then each chunk is scanned."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.reverse_cumsum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "STEPS": [16, 32, 64, 128],
    "COLS": [16, 32, 64],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def sum_kernel(x_ptr, sums_ptr, T, C, STEPS: tl.constexpr, COLS: tl.constexpr):
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    base = tl.program_id(2).to(tl.int64) * T * C
    t = tl.program_id(1) * STEPS + tl.arange(0, STEPS)[:, None]
    inside = (t < T) & (cols < C)
    x = tl.load(x_ptr + base + t * C + cols, mask=inside, other=0.0).to(tl.float32)
    chunk = tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)
    tl.store(sums_ptr + chunk * C + cols, tl.sum(x, axis=0, keep_dims=True), mask=cols < C)


@triton.jit
def scan_kernel(x_ptr, later_ptr, out_ptr, T, C, STEPS: tl.constexpr, COLS: tl.constexpr):
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    base = tl.program_id(2).to(tl.int64) * T * C
    t = tl.program_id(1) * STEPS + tl.arange(0, STEPS)[:, None]
    inside = (t < T) & (cols < C)
    x = tl.load(x_ptr + base + t * C + cols, mask=inside, other=0.0).to(tl.float32)
    chunk = tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)
    later = tl.load(later_ptr + chunk * C + cols, mask=cols < C, other=0.0)
    sums = tl.cumsum(x, axis=0, reverse=True) + later
    tl.store(out_ptr + base + t * C + cols, sums.to(x_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Four to 64 elements a thread; no band far wider than a row, no chunk longer than T."""
    each = params["STEPS"] * params["COLS"] / (32 * params["num_warps"])
    fits = params["COLS"] < 2 * shape["C"] and params["STEPS"] < 2 * shape["T"]
    return 4 <= each <= 64 and fits


def kernel(x, *, STEPS=64, COLS=32, num_warps=4):
    B, T, C = x.shape
    out = torch.empty_like(x)
    chunks = triton.cdiv(T, STEPS)
    sums = torch.empty((B, chunks, C), dtype=torch.float32, device=x.device)
    grid = (triton.cdiv(C, COLS), chunks, B)
    sum_kernel[grid](x, sums, T, C, STEPS, COLS, num_warps=num_warps)
    later = sums.flip(1).cumsum(1).flip(1) - sums
    scan_kernel[grid](x, later, out, T, C, STEPS, COLS, num_warps=num_warps)
    return out
