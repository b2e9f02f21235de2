"""Reduce, then scan: sums of segments first, so that those of one row are scanned in parallel.

The input is read twice; the second kernel adds up the sums of the segments before its own.
"""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.cumsum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SEGMENT": [128, 256, 512, 1024, 2048, 4096, 8192],
    "SUM_WARPS": [1, 2, 4, 8],
    "REVERSED": [False, True],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def segment_sum_kernel(x_ptr, sums_ptr, N, SEGMENT: tl.constexpr):
    row, part = tl.program_id(1), tl.program_id(0)
    cols = part * SEGMENT + tl.arange(0, SEGMENT)
    x = tl.load(x_ptr + row.to(tl.int64) * N + cols, mask=cols < N, other=0.0)
    tl.store(sums_ptr + row * tl.num_programs(0) + part, tl.sum(x.to(tl.float32), axis=0))


@triton.jit
def segment_scan_kernel(
    x_ptr, sums_ptr, out_ptr, N,
    SEGMENT: tl.constexpr, PARTS: tl.constexpr, REVERSED: tl.constexpr,
):  # fmt: skip
    row, part, parts = tl.program_id(1), tl.program_id(0), tl.num_programs(0)
    if REVERSED:  # what the first kernel read last may still be in L2
        row, part = tl.num_programs(1) - 1 - row, parts - 1 - part
    others = tl.arange(0, PARTS)
    before = tl.load(sums_ptr + row * parts + others, mask=others < part, other=0.0)
    cols = part * SEGMENT + tl.arange(0, SEGMENT)
    offsets = row.to(tl.int64) * N + cols
    x = tl.load(x_ptr + offsets, mask=cols < N, other=0.0).to(tl.float32)
    sums = tl.cumsum(x, axis=0) + tl.sum(before, axis=0)
    tl.store(out_ptr + offsets, sums.to(out_ptr.dtype.element_ty), mask=cols < N)


def valid(params, shape):
    """Four to 128 elements a thread, no segment far longer than a row."""
    each = params["SEGMENT"] / (32 * params["num_warps"])
    summed = params["SEGMENT"] / (32 * params["SUM_WARPS"])
    return 2 <= each <= 128 and 2 <= summed <= 128 and params["SEGMENT"] < 2 * shape["N"]


def kernel(x, *, SEGMENT=512, SUM_WARPS=4, REVERSED=False, num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    parts = triton.cdiv(N, SEGMENT)
    sums = torch.empty((M, parts), dtype=torch.float32, device=x.device)
    segment_sum_kernel[(parts, M)](x, sums, N, SEGMENT, num_warps=SUM_WARPS)
    segment_scan_kernel[(parts, M)](
        x, sums, out, N, SEGMENT, triton.next_power_of_2(parts), REVERSED, num_warps=num_warps
    )
    return out
