"""Column sums in two launches: strips of rows leave partial sums, a second kernel adds them."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.column_sum import problem
from solkit.datasets.zoo.column_sum.problem import TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
KIND = "reduction"
SHAPES = [problem.SHAPES[place] for place in (0, 1, 2, 6)]
SPACE = {
    "num_splits": [4, 16, 64, 256],
    "BLOCK_R": [8, 16, 32, 64],
    "BLOCK_C": [32, 64, 128, 256],
    "num_warps": [2, 4, 8],
}


@triton.jit
def _bias_grad_partial(
    dy_ptr, partial_ptr, n_rows, n_cols, row_stride, rows_per_split,
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    split, cols = tl.program_id(1), tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    begin = split * rows_per_split
    end = min(begin + rows_per_split, n_rows)
    acc = tl.zeros((BLOCK_R, BLOCK_C), dtype=tl.float32)
    for row in range(begin, end, BLOCK_R):
        rows = row + tl.arange(0, BLOCK_R)
        mask = (rows[:, None] < end) & (cols[None, :] < n_cols)
        acc += tl.load(dy_ptr + rows[:, None] * row_stride + cols[None, :], mask=mask, other=0.0)
    tl.store(partial_ptr + split * n_cols + cols, tl.sum(acc, axis=0), mask=cols < n_cols)


@triton.jit
def _bias_grad_final(partial_ptr, out_ptr, n_splits: tl.constexpr, n_cols, BLOCK_C: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    splits = tl.arange(0, n_splits)
    part = tl.load(
        partial_ptr + splits[:, None] * n_cols + cols[None, :], mask=cols[None, :] < n_cols,
        other=0.0,
    )  # fmt: skip
    tl.store(out_ptr + cols, tl.sum(part, axis=0), mask=cols < n_cols)


def valid(params, shape):
    tile = params["BLOCK_R"] * params["BLOCK_C"] / (32 * params["num_warps"])
    return 2 <= tile <= 64 and params["num_splits"] * params["BLOCK_R"] <= shape["M"]


def kernel(dy, *, num_splits=64, BLOCK_R=16, BLOCK_C=64, num_warps=4):
    n_rows, n_cols = dy.shape
    partial = dy.new_empty((num_splits, n_cols), dtype=torch.float32)
    out = torch.empty(n_cols, dtype=torch.float32, device=dy.device)
    _bias_grad_partial[(triton.cdiv(n_cols, BLOCK_C), num_splits)](
        dy, partial, n_rows, n_cols, dy.stride(0), triton.cdiv(n_rows, num_splits),
        BLOCK_R=BLOCK_R, BLOCK_C=BLOCK_C, num_warps=num_warps,
    )  # fmt: skip
    _bias_grad_final[(triton.cdiv(n_cols, 32),)](partial, out, num_splits, n_cols, BLOCK_C=32)
    return out
