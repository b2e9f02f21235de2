"""Each tile is sorted by tl.sort, so that it is stored in runs; torch finds where these go."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.counting_sort_digit.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [512, 1024, 2048, 4096],
    "COUNT_WARPS": [4, 8],
    "num_warps": [4, 8, 16],
}


@triton.jit
def count_kernel(keys_ptr, counts_ptr, N, SHIFT, DIGITS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(keys_ptr + at, mask=at < N, other=0)
    digit = (key >> SHIFT) & (DIGITS - 1)
    counts = tl.histogram(digit, DIGITS, mask=at < N)
    slot = tl.arange(0, DIGITS) * tl.num_programs(0) + tl.program_id(0)
    tl.store(counts_ptr + slot, counts)


@triton.jit
def run_kernel(keys_ptr, moves_ptr, out_ptr, N, SHIFT, DIGITS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    start = tl.program_id(0) * BLOCK
    key = tl.load(keys_ptr + start + i, mask=start + i < N, other=0)
    digit = tl.where(start + i < N, (key >> SHIFT) & (DIGITS - 1), DIGITS)
    both = tl.sort(digit * BLOCK + i)
    digit, origin = both // BLOCK, both % BLOCK
    inside = digit < DIGITS
    key = tl.load(keys_ptr + start + origin, mask=inside, other=0)
    slot = digit * tl.num_programs(0) + tl.program_id(0)
    move = tl.load(moves_ptr + slot, mask=inside, other=0)
    tl.store(out_ptr + move + i, key, mask=inside)


def valid(params, shape):
    """Two to 16 keys a thread."""
    each = params["BLOCK"] / (32 * params["num_warps"])
    counted = params["BLOCK"] / (32 * params["COUNT_WARPS"])
    return 2 <= each <= 16 and counted <= 32


def kernel(keys, bits, shift, *, BLOCK=1024, COUNT_WARPS=4, num_warps=8):
    N = keys.shape[0]
    tiles = triton.cdiv(N, BLOCK)
    counts = torch.empty((1 << bits, tiles), dtype=torch.int32, device=keys.device)
    out = torch.empty_like(keys)
    count_kernel[(tiles,)](keys, counts, N, shift, 1 << bits, BLOCK, num_warps=COUNT_WARPS)
    first = counts.view(-1).cumsum(0, dtype=torch.int32).view_as(counts) - counts
    moves = first - (counts.cumsum(0, dtype=torch.int32) - counts)
    run_kernel[(tiles,)](keys, moves, out, N, shift, 1 << bits, BLOCK, num_warps=num_warps)
    return out
