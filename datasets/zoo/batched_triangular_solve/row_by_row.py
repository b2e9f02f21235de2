"""A tile of matrices and right sides in registers; each solved row is taken from the rest."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.batched_triangular_solve.problem import (
    SHAPES,
    TOLERANCE,
    inputs,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "MATRICES": [1, 2, 4, 8, 16],
    "SIDES": [1, 4, 8, 16, 32],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def solve_kernel(
    lower_ptr, b_ptr, out_ptr, count, N, K,
    MATRICES: tl.constexpr, ROWS: tl.constexpr, SIDES: tl.constexpr,
):  # fmt: skip
    matrix = tl.program_id(0) * MATRICES + tl.arange(0, MATRICES)
    row = tl.arange(0, ROWS)
    side = tl.program_id(1) * SIDES + tl.arange(0, SIDES)
    real = (matrix[:, None] < count) & (row[None, :] < N)
    at = (matrix[:, None].to(tl.int64) * N + row[None, :])[:, :, None] * K + side[None, None, :]
    inside = real[:, :, None] & (side[None, None, :] < K)
    b = tl.load(b_ptr + at, mask=inside, other=0.0).to(tl.float32)
    start = lower_ptr + matrix[:, None].to(tl.int64) * N * N
    for j in range(N):
        column = tl.load(start + row[None, :] * N + j, mask=real & (row[None, :] >= j), other=0.0)
        column = column.to(tl.float32)
        diagonal = tl.sum(tl.where(row[None, :] == j, column, 0.0), axis=1)
        diagonal = tl.where(matrix < count, diagonal, 1.0)
        here = row[None, :, None] == j
        solved = tl.sum(tl.where(here, b, 0.0), axis=1) / diagonal[:, None]
        taken = b - column[:, :, None] * solved[:, None, :]
        b = tl.where(here, solved[:, None, :], taken)
    tl.store(out_ptr + at, b.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 32 elements a thread, and no more right sides than there are, but for the default."""
    rows, sides = triton.next_power_of_2(shape["N"]), params["SIDES"]
    held = params["MATRICES"] * rows * sides / (32 * params["num_warps"])
    default = params["MATRICES"] == 4 and sides == 4 and params["num_warps"] == 2
    return default or (1 <= held <= 32 and sides < 2 * shape["K"])


def kernel(lower, b, *, MATRICES=4, SIDES=4, num_warps=2):
    count, N, K = b.shape
    out = torch.empty_like(b)
    rows = triton.next_power_of_2(N)
    grid = (triton.cdiv(count, MATRICES), triton.cdiv(K, SIDES))
    solve_kernel[grid](lower, b, out, count, N, K, MATRICES, rows, SIDES, num_warps=num_warps)
    return out
