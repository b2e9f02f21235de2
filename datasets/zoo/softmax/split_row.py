"""Softmax of long rows cut into parts: one launch for their peaks and sums, one to write."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PART": [1024, 2048, 4096, 8192, 16384, 32768],
    "BLOCK": [512, 1024, 2048, 4096, 8192],
    "WRITE_BLOCK": [1024, 4096],
    "num_warps": [2, 4, 8, 16],
    "num_stages": [2, 4],
}


@triton.jit
def parts_kernel(x_ptr, peak_ptr, sum_ptr, N, PART: tl.constexpr, BLOCK: tl.constexpr):
    row, part = tl.program_id(1).to(tl.int64), tl.program_id(0)
    first = part * PART
    peaks = tl.full((BLOCK,), -1e30, dtype=tl.float32)
    sums = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(first, min(first + PART, N), BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(peaks, x)
        sums = sums * tl.exp(peaks - higher) + tl.exp(x - higher)
        peaks = higher
    peak = tl.max(peaks, axis=0)
    at = row * tl.num_programs(0) + part
    tl.store(peak_ptr + at, peak)
    tl.store(sum_ptr + at, tl.sum(sums * tl.exp(peaks - peak), axis=0))


@triton.jit
def write_kernel(
    x_ptr, peak_ptr, sum_ptr, out_ptr, N, PARTS, LANES: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(1).to(tl.int64)
    part = tl.arange(0, LANES)
    peaks = tl.load(peak_ptr + row * PARTS + part, mask=part < PARTS, other=-1e30)
    sums = tl.load(sum_ptr + row * PARTS + part, mask=part < PARTS, other=0.0)
    peak = tl.max(peaks, axis=0)
    scale = 1.0 / tl.sum(sums * tl.exp(peaks - peak), axis=0)
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N).to(tl.float32)
    out = tl.exp(x - peak) * scale
    tl.store(out_ptr + row * N + cols, out.to(out_ptr.dtype.element_ty), mask=cols < N)


def valid(params, shape):
    """Two to 64 values a thread, blocks within a part, and rows of at least two parts."""
    threads = 32 * params["num_warps"]
    within = params["BLOCK"] <= params["PART"] < shape["N"]
    return within and all(2 <= params[key] / threads <= 64 for key in ("BLOCK", "WRITE_BLOCK"))


def kernel(x, *, PART=2048, BLOCK=1024, WRITE_BLOCK=1024, num_warps=4, num_stages=2):
    M, N = x.shape
    out = torch.empty_like(x)
    parts = triton.cdiv(N, PART)
    peaks, sums = torch.empty((2, M, parts), dtype=torch.float32, device=x.device)
    launch = {"num_warps": num_warps, "num_stages": num_stages}
    parts_kernel[(parts, M)](x, peaks, sums, N, PART, BLOCK, **launch)
    lanes = triton.next_power_of_2(parts)
    grid = (triton.cdiv(N, WRITE_BLOCK), M)
    write_kernel[grid](x, peaks, sums, out, N, parts, lanes, WRITE_BLOCK, **launch)
    return out
