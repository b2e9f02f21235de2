"""Several rows a program, columns in chunks; a tile of partial sums is folded at the end."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.row_sum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "BLOCK": [64, 128, 256, 512, 1024, 2048, 4096],
    "FOLD_LATE": [True, False],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def row_sum_kernel(
    x_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr, FOLD_LATE: tl.constexpr
):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    if FOLD_LATE:
        total = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    else:
        total = tl.zeros((ROWS,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=inside, other=0.0)
        if FOLD_LATE:
            total += x.to(tl.float32)
        else:
            total += tl.sum(x.to(tl.float32), axis=1)
    if FOLD_LATE:
        total = tl.sum(total, axis=1)
    tl.store(out_ptr + rows, total, mask=rows < M)


def valid(params, shape):
    """Two to 128 values a thread, no block far longer than a row, at most 2500 steps."""
    held = params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"])
    steps = shape["N"] / params["BLOCK"]
    return 2 <= held <= 128 and 0.5 <= steps <= 2500


def kernel(x, *, ROWS=1, BLOCK=512, FOLD_LATE=True, num_warps=4):
    M, N = x.shape
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    row_sum_kernel[(triton.cdiv(M, ROWS),)](
        x, out, M, N, ROWS, BLOCK, FOLD_LATE, num_warps=num_warps
    )
    return out
