"""Equal shares of nonzeros, added up along rows by a segmented scan; one atomic a row and share."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.csr_spmv.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK": [64, 128, 256, 512, 1024, 2048],
    "EVICT": ["", "evict_first"],
    "LAST_BY_ROW_END": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def add_within_row(sum_a, row_a, sum_b, row_b):
    return tl.where(row_a == row_b, sum_a + sum_b, sum_b), row_b


@triton.jit
def scan_kernel(
    row_ptr, cols_ptr, values_ptr, x_ptr, sums_ptr, M, COUNT,
    BITS: tl.constexpr, BLOCK: tl.constexpr, EVICT: tl.constexpr, LAST_BY_ROW_END: tl.constexpr,
):  # fmt: skip
    lane = tl.arange(0, BLOCK)
    i = tl.program_id(0) * BLOCK + lane
    inside = i < COUNT
    low = tl.zeros((BLOCK,), dtype=tl.int32)
    high = tl.full((BLOCK,), M, dtype=tl.int32)
    for _ in range(BITS):  # row_ptr[low] <= i < row_ptr[high] throughout
        middle = (low + high) // 2
        after = tl.load(row_ptr + middle, mask=inside, other=0) > i
        low, high = tl.where(after, low, middle), tl.where(after, middle, high)
    col = tl.load(cols_ptr + i, mask=inside, other=0, eviction_policy=EVICT)
    a = tl.load(values_ptr + i, mask=inside, other=0.0, eviction_policy=EVICT).to(tl.float32)
    x = tl.load(x_ptr + col, mask=inside, other=0.0).to(tl.float32)
    sums, rows = tl.associative_scan((a * x, low), 0, add_within_row)
    if LAST_BY_ROW_END:
        ends = tl.load(row_ptr + rows + 1, mask=inside, other=0) == i + 1
    else:
        ends = tl.gather(rows, tl.minimum(lane + 1, BLOCK - 1), 0) != rows
    ends |= (lane == BLOCK - 1) | (i == COUNT - 1)
    tl.atomic_add(sums_ptr + rows, sums, mask=inside & ends, sem="relaxed")


def valid(params, shape):
    """One to 16 nonzeros a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 16


def kernel(row_ptr, cols, values, x, *, BLOCK=256, EVICT="", LAST_BY_ROW_END=True, num_warps=4):
    M, count = row_ptr.numel() - 1, values.numel()
    sums = torch.zeros(M, dtype=torch.float32, device=x.device)
    scan_kernel[(triton.cdiv(count, BLOCK),)](
        row_ptr, cols, values, x, sums, M, count, M.bit_length(), BLOCK, EVICT, LAST_BY_ROW_END,
        num_warps=num_warps,
    )  # fmt: skip
    return sums.to(x.dtype)
