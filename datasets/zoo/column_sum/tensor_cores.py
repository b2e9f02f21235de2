"""Rows of ones times the matrix: the tensor cores add up columns of half-precision values."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.column_sum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [32, 64, 128],
    "COLS": [16, 32, 64, 128, 256],
    "LENGTH": [256, 1024, 4096],
    "num_warps": [2, 4],
    "num_stages": [2, 3, 4],
}


@triton.jit
def column_sum_dot_kernel(x_ptr, out_ptr, M, N, LENGTH, ROWS: tl.constexpr, COLS: tl.constexpr):
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    first = tl.program_id(1) * LENGTH
    ones = tl.full((16, ROWS), 1.0, dtype=x_ptr.dtype.element_ty)
    total = tl.zeros((16, COLS), dtype=tl.float32)
    for start in range(first, first + LENGTH, ROWS):
        rows = start + tl.arange(0, ROWS)
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=inside, other=0.0)
        total = tl.dot(ones, x, total)
    tl.atomic_add(out_ptr + cols, tl.max(total, axis=0), mask=cols < N)  # 16 rows of one sum


def valid(params, shape):
    """Half precision, pipelined tiles that fit in shared memory, four to 128 values a thread."""
    tile = params["ROWS"] * params["COLS"]
    shared = params["num_stages"] * tile * 2 + 16 * params["ROWS"] * 2
    fits = shared <= 200 * 1024 and 4 <= tile / (32 * params["num_warps"]) <= 128
    return shape["dtype"] != "float32" and fits and shape["M"] / params["LENGTH"] <= 5000


def kernel(x, *, ROWS=64, COLS=64, LENGTH=1024, num_warps=4, num_stages=3):
    M, N = x.shape
    out = torch.zeros(N, dtype=torch.float32, device=x.device)
    column_sum_dot_kernel[(triton.cdiv(N, COLS), triton.cdiv(M, LENGTH))](
        x, out, M, N, LENGTH, ROWS, COLS, num_warps=num_warps, num_stages=num_stages
    )
    return out
