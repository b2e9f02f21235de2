"""A program takes some rows and goes over all places, or to the longest row's length, in tiles."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.ell_spmv.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [32, 64, 128, 256],
    "PLACES": [1, 2, 4, 8, 16],
    "BY_LENGTH": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def tiles_kernel(
    cols_ptr, values_ptr, lengths_ptr, x_ptr, out_ptr, width, M,
    BY_LENGTH: tl.constexpr, ROWS: tl.constexpr, PLACES: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    end = width
    if BY_LENGTH:
        end = tl.max(tl.load(lengths_ptr + row, mask=row < M, other=0))
    total = tl.zeros((PLACES, ROWS), dtype=tl.float32)
    for start in range(0, end, PLACES):
        place = start + tl.arange(0, PLACES)
        inside = (place[:, None] < end) & (row[None, :] < M)
        at = place[:, None] * M + row[None, :]
        col = tl.load(cols_ptr + at, mask=inside, other=-1)
        value = tl.load(values_ptr + at, mask=col >= 0, other=0.0).to(tl.float32)
        total += value * tl.load(x_ptr + col, mask=col >= 0, other=0.0).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(total, axis=0).to(out_ptr.dtype.element_ty), mask=row < M)


def valid(params, shape):
    """One to 16 entries a thread, no more places than rows have."""
    held = params["ROWS"] * params["PLACES"] / (32 * params["num_warps"])
    return 1 <= held <= 16 and params["PLACES"] < 2 * shape["WIDTH"]


def kernel(cols, values, lengths, x, *, ROWS=128, PLACES=4, BY_LENGTH=True, num_warps=4):
    width, M = cols.shape
    out = torch.empty(M, dtype=x.dtype, device=x.device)
    tiles_kernel[(triton.cdiv(M, ROWS),)](
        cols, values, lengths, x, out, width, M, BY_LENGTH, ROWS, PLACES, num_warps=num_warps
    )
    return out
