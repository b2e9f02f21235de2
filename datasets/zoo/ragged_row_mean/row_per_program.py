"""A program a row, in blocks; each column of the block has a sum of its own until the end."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.ragged_row_mean.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [32, 64, 128, 256, 512, 1024, 2048],
    "STAGES": [1, 2, 4],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def row_kernel(values_ptr, offsets_ptr, out_ptr, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    row = tl.program_id(0)
    first = tl.load(offsets_ptr + row)
    end = tl.load(offsets_ptr + row + 1)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in tl.range(first, end, BLOCK, num_stages=STAGES):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(values_ptr + at, mask=at < end, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(total) / tl.maximum(end - first, 1))


def valid(params, shape):
    """One to 16 numbers a thread, no block far longer than a row, except the smallest."""
    held = params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 16 and params["BLOCK"] < max(4 * shape["PER_ROW"], 257)


def kernel(values, offsets, *, BLOCK=256, STAGES=1, num_warps=2):
    rows = offsets.shape[0] - 1
    out = torch.empty(rows, dtype=torch.float32, device=values.device)
    row_kernel[(rows,)](values, offsets, out, BLOCK, STAGES, num_warps=num_warps)
    return out
