"""A kernel marks changes, torch.cumsum numbers runs, a kernel adds each element atomically."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.run_length_sums.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [256, 512, 1024, 2048, 4096],
    "EACH": [1, 4],
    "num_warps": [2, 4, 8],
}


@triton.jit
def mark_kernel(keys_ptr, marks_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(keys_ptr + at, mask=at < N, other=0)
    before = tl.load(keys_ptr + at - 1, mask=(at > 0) & (at < N), other=0)
    tl.store(marks_ptr + at, ((key != before) & (at > 0)).to(tl.int8), mask=at < N)


@triton.jit
def add_kernel(x_ptr, run_ptr, out_ptr, N, BLOCK: tl.constexpr, EACH: tl.constexpr):
    for turn in tl.static_range(EACH):
        at = (tl.program_id(0) * EACH + turn) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < N, other=0.0)
        run = tl.load(run_ptr + at, mask=at < N, other=0)
        tl.atomic_add(out_ptr + run, x, mask=at < N, sem="relaxed")


def valid(params, shape):
    """Two to 32 elements a thread."""
    return 2 <= params["BLOCK"] / (32 * params["num_warps"]) <= 32


def kernel(keys, x, runs, *, BLOCK=1024, EACH=1, num_warps=4):
    N = x.shape[0]
    marks = torch.empty(N, dtype=torch.int8, device=x.device)
    out = torch.zeros(runs, dtype=torch.float32, device=x.device)
    mark_kernel[(triton.cdiv(N, BLOCK),)](keys, marks, N, BLOCK, num_warps=num_warps)
    run = marks.cumsum(0, dtype=torch.int32)
    grid = (triton.cdiv(N, BLOCK * EACH),)
    add_kernel[grid](x, run, out, N, BLOCK, EACH, num_warps=num_warps)
    return out
