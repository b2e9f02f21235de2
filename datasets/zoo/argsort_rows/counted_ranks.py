"""Each key counts what comes before it, and stores its column at that place; quadratic work."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.argsort_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [32, 64, 128, 256],
    "OTHERS": [8, 16, 32, 64],
    "num_warps": [1, 2, 4],
}


@triton.jit
def counting_kernel(keys_ptr, out_ptr, N, BLOCK: tl.constexpr, OTHERS: tl.constexpr):
    row = tl.program_id(0) * N
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    # Keys that are apart by their columns as well: one comparison is enough.
    key = tl.load(keys_ptr + row + cols, mask=cols < N, other=0) * 0x10000 + cols
    before = tl.zeros((BLOCK, OTHERS), dtype=tl.int32)
    for start in range(0, N, OTHERS):
        other = start + tl.arange(0, OTHERS)
        y = tl.load(keys_ptr + row + other, mask=other < N, other=0x7FFF) * 0x10000 + other
        before += (y[None, :] < key[:, None]).to(tl.int32)
    tl.store(out_ptr + row + tl.sum(before, axis=1), cols, mask=cols < N)


def valid(params, shape):
    """Four to 64 comparisons at a time and thread; blocks that rows fill."""
    block, others = params["BLOCK"], params["OTHERS"]
    return block < 2 * shape["N"] and 4 <= block * others / (32 * params["num_warps"]) <= 64


def kernel(keys, below, *, BLOCK=64, OTHERS=32, num_warps=2):
    M, N = keys.shape
    out = torch.empty_like(keys)
    counting_kernel[(M, triton.cdiv(N, BLOCK))](keys, out, N, BLOCK, OTHERS, num_warps=num_warps)
    return out
