"""A segmented scan over a block of entries, one atomic a run; or an atomic for every entry."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.coo_spmv.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048],
    "SCAN": [False, True],
    "EVICT": ["", "evict_first"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def add_within_run(sum_a, row_a, sum_b, row_b):
    return tl.where(row_a == row_b, sum_a + sum_b, sum_b), row_b


@triton.jit
def entries_kernel(
    rows_ptr, cols_ptr, values_ptr, x_ptr, out_ptr, count,
    BLOCK: tl.constexpr, SCAN: tl.constexpr, EVICT: tl.constexpr,
):  # fmt: skip
    lane = tl.arange(0, BLOCK)
    i = tl.program_id(0) * BLOCK + lane
    inside = i < count
    row = tl.load(rows_ptr + i, mask=inside, other=-1, eviction_policy=EVICT)
    col = tl.load(cols_ptr + i, mask=inside, other=0, eviction_policy=EVICT)
    value = tl.load(values_ptr + i, mask=inside, other=0.0, eviction_policy=EVICT)
    product = value.to(tl.float32) * tl.load(x_ptr + col, mask=inside, other=0.0).to(tl.float32)
    if SCAN:
        following = tl.load(rows_ptr + i + 1, mask=i + 1 < count, other=-1)
        previous = tl.load(rows_ptr + i - 1, mask=inside & (i > 0), other=-1)
        # Runs are numbered, since a row may come again where entries are in no order.
        run = tl.cumsum((row != previous).to(tl.int32), axis=0)
        product, _ = tl.associative_scan((product, run), 0, add_within_run)
        inside &= (row != following) | (lane == BLOCK - 1)
    tl.atomic_add(out_ptr + row, product, mask=inside, sem="relaxed")


def valid(params, shape):
    """One to 16 entries a thread; a scan where there may be runs."""
    each = params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= each <= 16 and (shape["SORTED"] or not params["SCAN"] or each > 2)


def kernel(rows, cols, values, x, height, *, BLOCK=512, SCAN=True, EVICT="", num_warps=4):
    count = values.numel()
    out = torch.zeros(height, dtype=torch.float32, device=x.device)
    entries_kernel[(triton.cdiv(count, BLOCK),)](
        rows, cols, values, x, out, count, BLOCK, SCAN, EVICT, num_warps=num_warps
    )
    return out
