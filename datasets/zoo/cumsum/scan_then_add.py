"""Scan, then add: segments are scanned on their own, their totals too, and added afterwards.

Three kernels; the local sums go through memory in float32 between the first and the last.
"""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.cumsum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SEGMENT": [128, 256, 512, 1024, 2048, 4096],
    "SPAN": [256, 512, 1024, 2048, 4096],
    "ADD_WARPS": [4, 8],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def local_kernel(x_ptr, local_ptr, totals_ptr, N, parts, SEGMENT: tl.constexpr):
    row, part = tl.program_id(0) // parts, tl.program_id(0) % parts
    cols = part * SEGMENT + tl.arange(0, SEGMENT)
    offsets = row.to(tl.int64) * N + cols
    x = tl.load(x_ptr + offsets, mask=cols < N, other=0.0).to(tl.float32)
    tl.store(local_ptr + offsets, tl.cumsum(x, axis=0), mask=cols < N)
    tl.store(totals_ptr + tl.program_id(0), tl.sum(x, axis=0))


@triton.jit
def totals_kernel(totals_ptr, parts, PARTS: tl.constexpr):
    at = tl.arange(0, PARTS)
    totals_ptr += tl.program_id(0) * parts
    totals = tl.load(totals_ptr + at, mask=at < parts, other=0.0)
    tl.store(totals_ptr + at, tl.cumsum(totals, axis=0) - totals, mask=at < parts)


@triton.jit
def add_kernel(
    local_ptr, totals_ptr, out_ptr, N, parts, spans, SEGMENT: tl.constexpr, SPAN: tl.constexpr
):
    row = tl.program_id(0) // spans
    cols = tl.program_id(0) % spans * SPAN + tl.arange(0, SPAN)
    offsets = row.to(tl.int64) * N + cols
    before = tl.load(totals_ptr + row * parts + cols // SEGMENT, mask=cols < N, other=0.0)
    sums = tl.load(local_ptr + offsets, mask=cols < N, other=0.0) + before
    tl.store(out_ptr + offsets, sums.to(out_ptr.dtype.element_ty), mask=cols < N)


def valid(params, shape):
    """Two to 64 elements a thread, no segment or span far longer than a row."""
    scanned = params["SEGMENT"] / (32 * params["num_warps"])
    added = params["SPAN"] / (32 * params["ADD_WARPS"])
    longest = max(params["SEGMENT"], params["SPAN"])
    return 2 <= scanned <= 64 and 2 <= added <= 64 and longest < 4 * shape["N"]


def kernel(x, *, SEGMENT=1024, SPAN=1024, ADD_WARPS=4, num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    local = torch.empty((M, N), dtype=torch.float32, device=x.device)
    parts, spans = triton.cdiv(N, SEGMENT), triton.cdiv(N, SPAN)
    totals = torch.empty((M, parts), dtype=torch.float32, device=x.device)
    local_kernel[(M * parts,)](x, local, totals, N, parts, SEGMENT, num_warps=num_warps)
    totals_kernel[(M,)](totals, parts, triton.next_power_of_2(parts), num_warps=1)
    add_kernel[(M * spans,)](
        local, totals, out, N, parts, spans, SEGMENT, SPAN, num_warps=ADD_WARPS
    )
    return out
