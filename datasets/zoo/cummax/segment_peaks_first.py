"""Two passes: the peak of every segment, then scans of the segments from the peak before them."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.cummax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SEGMENT": [128, 256, 512, 1024, 2048],
    "PEAK_WARPS": [1, 2, 4, 8],
    "SEGMENTS_FAST": [False, True],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def later_maximum(value, place, other, other_place):
    newer = other >= value
    return tl.where(newer, other, value), tl.where(newer, other_place, place)


@triton.jit
def peak_kernel(x_ptr, peaks_ptr, spots_ptr, N, parts, SEGMENT: tl.constexpr):
    row, part = tl.program_id(0) // parts, tl.program_id(0) % parts
    cols = part * SEGMENT + tl.arange(0, SEGMENT)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
    peak = tl.max(x, axis=0)
    tl.store(peaks_ptr + tl.program_id(0), peak)
    tl.store(spots_ptr + tl.program_id(0), tl.max(tl.where(x == peak, cols, -1), axis=0))


@triton.jit
def segment_kernel(
    x_ptr, peaks_ptr, spots_ptr, values_ptr, places_ptr, N, parts,
    SEGMENT: tl.constexpr, PARTS: tl.constexpr, SEGMENTS_FAST: tl.constexpr,
):  # fmt: skip
    if SEGMENTS_FAST:
        row, part = tl.program_id(0) // parts, tl.program_id(0) % parts
    else:
        rows = tl.num_programs(0) // parts
        row, part = tl.program_id(0) % rows, tl.program_id(0) // rows
    earlier = tl.arange(0, PARTS)
    known = earlier < part
    peaks = tl.load(peaks_ptr + row * parts + earlier, mask=known, other=float("-inf"))
    spots = tl.load(spots_ptr + row * parts + earlier, mask=known, other=-1)
    before = tl.max(peaks, axis=0)
    spot = tl.max(tl.where(peaks == before, spots, -1), axis=0)
    cols = part * SEGMENT + tl.arange(0, SEGMENT)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
    values, places = tl.associative_scan((x, cols), 0, later_maximum)
    places = tl.where(values >= before, places, spot)
    values = tl.maximum(values, before)
    at = row * N + cols
    tl.store(values_ptr + at, values.to(values_ptr.dtype.element_ty), mask=cols < N)
    tl.store(places_ptr + at, places, mask=cols < N)


def valid(params, shape):
    """One to 32 pairs a thread, no segment far longer than a row."""
    scanned = params["SEGMENT"] / (32 * params["num_warps"])
    peaked = params["SEGMENT"] / (32 * params["PEAK_WARPS"])
    fits = params["SEGMENT"] < 2 * max(shape["N"], 128)
    return fits and 1 <= scanned <= 32 and 1 <= peaked <= 32


def kernel(x, *, SEGMENT=128, PEAK_WARPS=1, SEGMENTS_FAST=True, num_warps=1):
    M, N = x.shape
    parts = triton.cdiv(N, SEGMENT)
    peaks = torch.empty((M, parts), dtype=torch.float32, device=x.device)
    spots = torch.empty((M, parts), dtype=torch.int32, device=x.device)
    values = torch.empty_like(x)
    places = torch.empty((M, N), dtype=torch.int32, device=x.device)
    peak_kernel[(M * parts,)](x, peaks, spots, N, parts, SEGMENT, num_warps=PEAK_WARPS)
    segment_kernel[(M * parts,)](
        x, peaks, spots, values, places, N, parts,
        SEGMENT, triton.next_power_of_2(parts), SEGMENTS_FAST, num_warps=num_warps,
    )  # fmt: skip
    return values, places
