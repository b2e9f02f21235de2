"""A program takes a block of entries and gathers both rows of each in blocks of K."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.sddmm.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ENTRIES": [4, 8, 16, 32, 64, 128],
    "BLOCK_K": [16, 32, 64, 128],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def entries_kernel(
    rows_ptr, cols_ptr, a_ptr, b_ptr, out_ptr, count, K,
    ENTRIES: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    entry = tl.program_id(0) * ENTRIES + tl.arange(0, ENTRIES)
    row = tl.load(rows_ptr + entry, mask=entry < count, other=0)
    col = tl.load(cols_ptr + entry, mask=entry < count, other=0)
    total = tl.zeros((ENTRIES, BLOCK_K), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        mask = (entry[:, None] < count) & (k[None, :] < K)
        a = tl.load(a_ptr + row[:, None] * K + k[None, :], mask=mask, other=0.0)
        b = tl.load(b_ptr + col[:, None] * K + k[None, :], mask=mask, other=0.0)
        total += a.to(tl.float32) * b.to(tl.float32)
    tl.store(out_ptr + entry, tl.sum(total, axis=1), mask=entry < count)


def valid(params, shape):
    """One to 32 values a thread, no block far deeper than rows are."""
    held = params["ENTRIES"] * params["BLOCK_K"] / (32 * params["num_warps"])
    return 1 <= held <= 32 and params["BLOCK_K"] < 2 * shape["K"]


def kernel(rows, cols, row_ptr, a, b, *, ENTRIES=32, BLOCK_K=32, num_warps=4):
    count, K = cols.numel(), a.shape[1]
    out = torch.empty(count, dtype=torch.float32, device=a.device)
    entries_kernel[(triton.cdiv(count, ENTRIES),)](
        rows, cols, a, b, out, count, K, ENTRIES, BLOCK_K, num_warps=num_warps
    )
    return out
