"""A program a matrix and band of columns, down the middle axis in tiles."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.middle_sum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32, 64],
    "COLS": [16, 32, 64, 128, 256],
    "STAGES": [1, 2, 4],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def middle_sum_kernel(
    x_ptr, out_ptr, M, N, ROWS: tl.constexpr, COLS: tl.constexpr, STAGES: tl.constexpr
):
    batch = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    x_ptr += batch * M * N
    total = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for start in tl.range(0, M, ROWS, num_stages=STAGES):
        rows = start + tl.arange(0, ROWS)
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=inside, other=0.0)
        total += x.to(tl.float32)
    tl.store(out_ptr + batch * N + cols, tl.sum(total, axis=0), mask=cols < N)


def valid(params, shape):
    """One to 64 values a thread, tiles within the matrix, at most 2048 steps."""
    held = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    inside = params["ROWS"] < 2 * shape["M"] and params["COLS"] < 2 * shape["N"]
    return 1 <= held <= 64 and inside and shape["M"] / params["ROWS"] <= 2048


def kernel(x, *, ROWS=8, COLS=64, STAGES=1, num_warps=4):
    B, M, N = x.shape
    out = torch.empty((B, N), dtype=torch.float32, device=x.device)
    middle_sum_kernel[(B, triton.cdiv(N, COLS))](
        x, out, M, N, ROWS, COLS, STAGES, num_warps=num_warps
    )
    return out
