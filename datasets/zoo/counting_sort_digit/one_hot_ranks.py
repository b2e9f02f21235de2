"""Digits are counted by tile, torch.cumsum gives each its place; ranks come from one-hot scans."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.counting_sort_digit.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048],
    "COUNT_WARPS": [1, 4],
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
def move_kernel(
    keys_ptr, upto_ptr, counts_ptr, out_ptr, N, SHIFT, DIGITS: tl.constexpr, BLOCK: tl.constexpr
):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(keys_ptr + at, mask=at < N, other=0)
    digit = tl.where(at < N, (key >> SHIFT) & (DIGITS - 1), -1)
    each = tl.arange(0, DIGITS)
    hot = (digit[:, None] == each[None, :]).to(tl.int32)
    ranks = tl.cumsum(hot, axis=0)
    slot = each * tl.num_programs(0) + tl.program_id(0)
    first = tl.load(upto_ptr + slot).to(tl.int32) - tl.load(counts_ptr + slot)
    place = tl.sum(hot * (ranks + first[None, :] - 1), axis=1)
    tl.store(out_ptr + place, key, mask=at < N)


def valid(params, shape):
    """Four to 128 one-hot entries a thread, 128 KiB in all; one to 32 keys a thread are counted."""
    hot = (params["BLOCK"] << shape["BITS"]) / (32 * params["num_warps"])
    fits = params["BLOCK"] << shape["BITS"] <= 32768
    counted = params["BLOCK"] / (32 * params["COUNT_WARPS"])
    return fits and 4 <= hot <= 128 and 1 <= counted <= 32


def kernel(keys, bits, shift, *, BLOCK=128, COUNT_WARPS=1, num_warps=8):
    N = keys.shape[0]
    tiles = triton.cdiv(N, BLOCK)
    counts = torch.empty((1 << bits, tiles), dtype=torch.int32, device=keys.device)
    out = torch.empty_like(keys)
    count_kernel[(tiles,)](keys, counts, N, shift, 1 << bits, BLOCK, num_warps=COUNT_WARPS)
    upto = counts.view(-1).cumsum(0)
    move_kernel[(tiles,)](keys, upto, counts, out, N, shift, 1 << bits, BLOCK, num_warps=num_warps)
    return out
