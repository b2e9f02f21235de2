"""A program a band of columns, down all rows: simple, and fast only where columns are many."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.column_sum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [8, 16, 32, 64, 128],
    "COLS": [8, 16, 32, 64, 128],
    "STAGES": [1, 2, 4],
    "num_warps": [2, 4, 8, 16],
}


@triton.jit
def column_sum_kernel(
    x_ptr, out_ptr, M, N, ROWS: tl.constexpr, COLS: tl.constexpr, STAGES: tl.constexpr
):
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    rows = tl.arange(0, ROWS)
    pointers = x_ptr + rows[:, None] * N + cols[None, :]
    total = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for start in tl.range(0, M, ROWS, num_stages=STAGES):
        inside = (start + rows < M)[:, None] & (cols < N)[None, :]
        total += tl.load(pointers, mask=inside, other=0.0).to(tl.float32)
        pointers += ROWS * N
    tl.store(out_ptr + cols, tl.sum(total, axis=0), mask=cols < N)


def valid(params, shape):
    """One to 64 values a thread, and at most 2048 steps down the rows."""
    held = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    return 1 <= held <= 64 and shape["M"] / params["ROWS"] <= 2048


def kernel(x, *, ROWS=128, COLS=32, STAGES=2, num_warps=8):
    M, N = x.shape
    out = torch.empty(N, dtype=torch.float32, device=x.device)
    column_sum_kernel[(triton.cdiv(N, COLS),)](
        x, out, M, N, ROWS, COLS, STAGES, num_warps=num_warps
    )
    return out
