"""Changes are counted by tile, torch.cumsum runs; a segmented scan leaves an atomic a run."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.run_length_sums.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [512, 1024, 2048, 4096],
    "COUNT_WARPS": [4, 8],
    "num_warps": [2, 4, 8],
}


@triton.jit
def count_kernel(keys_ptr, counts_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(keys_ptr + at, mask=at < N, other=0)
    before = tl.load(keys_ptr + at - 1, mask=(at > 0) & (at < N), other=0)
    changes = (key != before) & (at > 0) & (at < N)
    tl.store(counts_ptr + tl.program_id(0), tl.sum(changes.to(tl.int32), axis=0))


@triton.jit
def join_runs(a_mark, a_sum, b_mark, b_sum):
    return a_mark + b_mark, tl.where(b_mark > 0, b_sum, a_sum + b_sum)


@triton.jit
def run_kernel(keys_ptr, x_ptr, upto_ptr, out_ptr, N, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    at = pid * BLOCK + i
    key = tl.load(keys_ptr + at, mask=at < N, other=0)
    before = tl.load(keys_ptr + at - 1, mask=(at > 0) & (at < N), other=0)
    after = tl.load(keys_ptr + at + 1, mask=at + 1 < N, other=-1)
    x = tl.load(x_ptr + at, mask=at < N, other=0.0)
    mark = ((key != before) & (at > 0) & (at < N)).to(tl.int32)
    upto = tl.load(upto_ptr + pid - 1, mask=pid > 0, other=0).to(tl.int32)
    # Marks add up to the number of the run within the tile.
    number, sums = tl.associative_scan((mark, x), 0, join_runs)
    ends = (key != after) | (i == BLOCK - 1)
    tl.atomic_add(out_ptr + upto + number, sums, mask=ends & (at < N), sem="relaxed")


def valid(params, shape):
    """Two to 32 elements a thread."""
    each = params["BLOCK"] / (32 * params["num_warps"])
    return 4 <= each <= 32 and params["BLOCK"] / (32 * params["COUNT_WARPS"]) >= 2


def kernel(keys, x, runs, *, BLOCK=1024, COUNT_WARPS=4, num_warps=4):
    N = x.shape[0]
    tiles = triton.cdiv(N, BLOCK)
    counts = torch.empty(tiles, dtype=torch.int32, device=x.device)
    out = torch.zeros(runs, dtype=torch.float32, device=x.device)
    count_kernel[(tiles,)](keys, counts, N, BLOCK, num_warps=COUNT_WARPS)
    run_kernel[(tiles,)](keys, x, counts.cumsum(0), out, N, BLOCK, num_warps=num_warps)
    return out
