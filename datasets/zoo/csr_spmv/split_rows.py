"""A grid of rows by parts: part p of a row takes every PARTS-th chunk of it and adds atomically."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.csr_spmv.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK": [32, 64, 128, 256, 512],
    "PARTS": [2, 4, 8, 16],
    "UNROLL": [1, 2],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def part_kernel(
    row_ptr, cols_ptr, values_ptr, x_ptr, sums_ptr,
    BLOCK: tl.constexpr, PARTS: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    row, part = tl.program_id(0), tl.program_id(1)
    first = tl.load(row_ptr + row) + part * BLOCK
    last = tl.load(row_ptr + row + 1)
    if first >= last:
        return
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in tl.range(first, last, PARTS * BLOCK, loop_unroll_factor=UNROLL):
        i = start + tl.arange(0, BLOCK)
        col = tl.load(cols_ptr + i, mask=i < last, other=0)
        a = tl.load(values_ptr + i, mask=i < last, other=0.0)
        acc += a.to(tl.float32) * tl.load(x_ptr + col, mask=i < last, other=0.0)
    tl.atomic_add(sums_ptr + row, tl.sum(acc, axis=0), sem="relaxed")


def valid(params, shape):
    """One to 16 nonzeros a thread, rows that are worth a split."""
    fits = 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 16
    return fits and shape["PER_ROW"] >= 32 and shape["M"] * params["PARTS"] <= 2**19


def kernel(row_ptr, cols, values, x, *, BLOCK=64, PARTS=2, UNROLL=1, num_warps=1):
    M = row_ptr.numel() - 1
    sums = torch.zeros(M, dtype=torch.float32, device=x.device)
    part_kernel[(M, PARTS)](
        row_ptr, cols, values, x, sums, BLOCK, PARTS, UNROLL, num_warps=num_warps
    )
    return sums.to(x.dtype)
