"""The middle axis cut into parts for more programs, added up with atomics."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.middle_sum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "COLS": [32, 64, 128, 256, 512],
    "SPLIT": [2, 4, 8, 16],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def middle_sum_atomic_kernel(x_ptr, out_ptr, M, N, length, ROWS: tl.constexpr, COLS: tl.constexpr):
    batch, part = tl.program_id(0).to(tl.int64), tl.program_id(2)
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    end = tl.minimum((part + 1) * length, M)
    total = tl.zeros((COLS,), dtype=tl.float32)
    for start in range(part * length, end, ROWS):
        rows = start + tl.arange(0, ROWS)
        inside = (rows[:, None] < end) & (cols[None, :] < N)
        place = x_ptr + (batch * M + rows[:, None]) * N + cols[None, :]
        total += tl.sum(tl.load(place, mask=inside, other=0.0).to(tl.float32), axis=0)
    tl.atomic_add(out_ptr + batch * N + cols, total, mask=cols < N, sem="relaxed")


def valid(params, shape):
    """One to 64 values a thread, tiles within the matrix and its parts."""
    held = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    inside = params["ROWS"] * params["SPLIT"] <= shape["M"] and params["COLS"] < 2 * shape["N"]
    return 1 <= held <= 64 and inside


def kernel(x, *, ROWS=4, COLS=64, SPLIT=2, num_warps=4):
    B, M, N = x.shape
    out = torch.zeros((B, N), dtype=torch.float32, device=x.device)
    grid = (B, triton.cdiv(N, COLS), SPLIT)
    middle_sum_atomic_kernel[grid](
        x, out, M, N, triton.cdiv(M, SPLIT), ROWS, COLS, num_warps=num_warps
    )
    return out
