"""Sums of segments; torch finds what precedes each; masks and sums; torch adds up; then scaling."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.top_p_mask.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SEGMENT": [512, 1024, 2048, 4096],
    "SUM_WARPS": [2, 4, 8],
    "num_warps": [2, 4, 8],
}


@triton.jit
def sum_kernel(x_ptr, sums_ptr, N, SEGMENT: tl.constexpr):
    row, part = tl.program_id(1), tl.program_id(0)
    cols = part * SEGMENT + tl.arange(0, SEGMENT)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0.0)
    tl.store(sums_ptr + row * tl.num_programs(0) + part, tl.sum(x, axis=0))


@triton.jit
def mask_kernel(x_ptr, before_ptr, out_ptr, kept_ptr, N, p, SEGMENT: tl.constexpr):
    row, part = tl.program_id(1), tl.program_id(0)
    place = row * tl.num_programs(0) + part
    before = tl.load(before_ptr + place)
    cols = part * SEGMENT + tl.arange(0, SEGMENT)
    # A segment that P has been reached before is not read again.
    x = tl.load(x_ptr + row * N + cols, mask=cols < tl.where(before < p, N, 0), other=0.0)
    x = tl.where(before + tl.cumsum(x, axis=0) - x < p, x, 0.0)
    tl.store(out_ptr + row * N + cols, x, mask=cols < N)
    tl.store(kept_ptr + place, tl.sum(x, axis=0))


@triton.jit
def scale_kernel(out_ptr, before_ptr, scale_ptr, N, p, SEGMENT: tl.constexpr):
    row, part = tl.program_id(1), tl.program_id(0)
    if tl.load(before_ptr + row * tl.num_programs(0) + part) < p:
        cols = part * SEGMENT + tl.arange(0, SEGMENT)
        x = tl.load(out_ptr + row * N + cols, mask=cols < N, other=0.0)
        tl.store(out_ptr + row * N + cols, x * tl.load(scale_ptr + row), mask=cols < N)


def valid(params, shape):
    """Two to 64 elements a thread, no segment far longer than a row."""
    each = params["SEGMENT"] / (32 * params["num_warps"])
    summed = params["SEGMENT"] / (32 * params["SUM_WARPS"])
    fits = params["SEGMENT"] < 2 * max(shape["N"], 512)
    return fits and 4 <= each <= 32 and 4 <= summed <= 32


def kernel(x, p, *, SEGMENT=512, SUM_WARPS=4, num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(N, SEGMENT), M)
    sums, kept = torch.empty((2, M, grid[0]), dtype=torch.float32, device=x.device)
    sum_kernel[grid](x, sums, N, SEGMENT, num_warps=SUM_WARPS)
    before = sums.cumsum(1) - sums
    mask_kernel[grid](x, before, out, kept, N, p, SEGMENT, num_warps=num_warps)
    scale = kept.sum(1).reciprocal()
    scale_kernel[grid](out, before, scale, N, p, SEGMENT, num_warps=num_warps)
    return out
