"""Without atomics: PROGRAMS histograms in memory, each of a strided share, then their sum."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.histogram.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [256, 512, 1024, 2048, 4096],
    "PROGRAMS": [132, 264, 528, 1056],
    "BINS_EACH": [8, 32, 128],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def share_kernel(x_ptr, parts_ptr, N, bins, SLOTS: tl.constexpr, BLOCK: tl.constexpr):
    counts = tl.zeros((SLOTS,), dtype=tl.int32)
    for start in range(tl.program_id(0) * BLOCK, N, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < N, other=0, cache_modifier=".cg")
        counts += tl.histogram(x.to(tl.int32), SLOTS, mask=at < N)
    slot = tl.arange(0, SLOTS)
    tl.store(parts_ptr + tl.program_id(0) * bins + slot, counts, mask=slot < bins)


@triton.jit
def column_kernel(parts_ptr, out_ptr, parts, bins, ROWS: tl.constexpr, BINS_EACH: tl.constexpr):
    slot = tl.program_id(0) * BINS_EACH + tl.arange(0, BINS_EACH)
    total = tl.zeros((ROWS, BINS_EACH), dtype=tl.int32)
    for start in range(0, parts, ROWS):
        row = start + tl.arange(0, ROWS)
        mask = (row[:, None] < parts) & (slot[None, :] < bins)
        total += tl.load(parts_ptr + row[:, None] * bins + slot[None, :], mask=mask, other=0)
    tl.store(out_ptr + slot, tl.sum(total, axis=0), mask=slot < bins)


def valid(params, shape):
    """Two to 64 elements a thread."""
    return 2 <= params["BLOCK"] / (32 * params["num_warps"]) <= 64


def kernel(x, bins, *, BLOCK=1024, PROGRAMS=528, BINS_EACH=8, num_warps=4):
    N = x.shape[0]
    parts = min(PROGRAMS, triton.cdiv(N, BLOCK))
    counts = torch.empty((parts, bins), dtype=torch.int32, device=x.device)
    out = torch.empty(bins, dtype=torch.int32, device=x.device)
    slots = triton.next_power_of_2(bins)
    share_kernel[(parts,)](x, counts, N, bins, slots, BLOCK, num_warps=num_warps)
    grid = (triton.cdiv(bins, BINS_EACH),)
    column_kernel[grid](counts, out, parts, bins, 1024 // BINS_EACH, BINS_EACH, num_warps=4)
    return out
