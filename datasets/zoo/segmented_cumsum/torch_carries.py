"""The tails of tiles are summed first; torch's operators carry them on; then each tile is scanned.

What is carried into a tile is a difference of running sums of tails, in float64.
"""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.segmented_cumsum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [1024, 2048, 4096, 8192],
    "SUM_WARPS": [4, 8],
    "num_warps": [4, 8, 16],
}


@triton.jit
def join_runs(a_mark, a_sum, b_mark, b_sum):
    return a_mark | b_mark, tl.where(b_mark != 0, b_sum, a_sum + b_sum)


@triton.jit
def tail_kernel(x_ptr, marks_ptr, marked_ptr, tail_ptr, N, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0) * BLOCK + i
    mark = tl.load(marks_ptr + at, mask=at < N, other=0)
    last = tl.max(tl.where(mark != 0, i, -1), axis=0)
    x = tl.load(x_ptr + at, mask=(at < N) & (i >= last), other=0.0).to(tl.float32)
    tl.store(tail_ptr + tl.program_id(0), tl.sum(x, axis=0))
    tl.store(marked_ptr + tl.program_id(0), last >= 0)


@triton.jit
def scan_kernel(x_ptr, marks_ptr, carry_ptr, out_ptr, N, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    at = pid * BLOCK + i
    x = tl.load(x_ptr + at, mask=at < N, other=0.0).to(tl.float32)
    mark = tl.load(marks_ptr + at, mask=at < N, other=0).to(tl.int32)
    x += tl.where((i == 0) & (mark == 0), tl.load(carry_ptr + pid - 1, mask=pid > 0, other=0.0), 0)
    _, sums = tl.associative_scan((mark, x), 0, join_runs)
    tl.store(out_ptr + at, sums, mask=at < N)


def valid(params, shape):
    """Four to 64 elements a thread."""
    scanned = params["BLOCK"] / (32 * params["num_warps"])
    return 4 <= scanned <= 32 and params["BLOCK"] / (32 * params["SUM_WARPS"]) <= 64


def kernel(x, marks, *, BLOCK=4096, SUM_WARPS=8, num_warps=8):
    N = x.shape[0]
    tiles = triton.cdiv(N, BLOCK)
    out = torch.empty(N, dtype=torch.float32, device=x.device)
    marked = torch.empty(tiles, dtype=torch.bool, device=x.device)
    tail = torch.empty(tiles, dtype=torch.float32, device=x.device)
    tail_kernel[(tiles,)](x, marks, marked, tail, N, BLOCK, num_warps=SUM_WARPS)
    total = tail.double().cumsum(0)
    tile = torch.arange(tiles, device=x.device)
    last = torch.where(marked, tile, 0).cummax(0).values
    carry = (total - (total - tail)[last]).float()
    scan_kernel[(tiles,)](x, marks, carry, out, N, BLOCK, num_warps=num_warps)
    return out
