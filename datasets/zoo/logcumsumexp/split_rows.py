"""Segments are reduced, torch.logcumsumexp runs over these, and each segment starts from it."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.logcumsumexp.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SEGMENT": [512, 1024, 2048, 4096, 8192],
    "SUM_WARPS": [2, 8],
    "num_warps": [2, 4, 8],
}


@triton.jit
def join_pairs(a_peak, a_sum, b_peak, b_sum):
    peak = tl.maximum(a_peak, b_peak)
    return peak, a_sum * tl.exp(a_peak - peak) + b_sum * tl.exp(b_peak - peak)


@triton.jit
def reduce_kernel(x_ptr, parts_ptr, N, SEGMENT: tl.constexpr):
    row, part = tl.program_id(1), tl.program_id(0)
    cols = part * SEGMENT + tl.arange(0, SEGMENT)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
    peak = tl.max(x, axis=0)
    total = tl.sum(tl.exp(x - peak), axis=0)
    tl.store(parts_ptr + row * tl.num_programs(0) + part, peak + tl.log(total))


@triton.jit
def scan_kernel(x_ptr, upto_ptr, out_ptr, N, SEGMENT: tl.constexpr):
    row, part = tl.program_id(1), tl.program_id(0)
    cols = part * SEGMENT + tl.arange(0, SEGMENT)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=-1e30).to(tl.float32)
    before = tl.load(
        upto_ptr + row * tl.num_programs(0) + part - 1, mask=part > 0, other=float("-inf")
    )
    peaks, sums = tl.associative_scan((x, tl.full((SEGMENT,), 1.0, tl.float32)), 0, join_pairs)
    scanned = peaks + tl.log(sums)
    high = tl.maximum(scanned, before)
    scanned = high + tl.log(tl.exp(scanned - high) + tl.exp(before - high))
    tl.store(out_ptr + row * N + cols, scanned.to(out_ptr.dtype.element_ty), mask=cols < N)


def valid(params, shape):
    """Four to 128 elements a thread, no segment far longer than a row."""
    each = params["SEGMENT"] / (32 * params["num_warps"])
    summed = params["SEGMENT"] / (32 * params["SUM_WARPS"])
    return 4 <= each <= 64 and 2 <= summed <= 128 and params["SEGMENT"] < 2 * shape["N"]


def kernel(x, *, SEGMENT=512, SUM_WARPS=2, num_warps=2):
    M, N = x.shape
    out = torch.empty_like(x)
    parts = torch.empty((M, triton.cdiv(N, SEGMENT)), dtype=torch.float32, device=x.device)
    grid = (parts.shape[1], M)
    reduce_kernel[grid](x, parts, N, SEGMENT, num_warps=SUM_WARPS)
    upto = torch.logcumsumexp(parts, dim=1)
    scan_kernel[grid](x, upto, out, N, SEGMENT, num_warps=num_warps)
    return out
