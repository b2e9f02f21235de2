"""Each program sums a few tiles of a band of columns and adds the result with atomics."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.column_sum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 4, 16, 64],
    "COLS": [32, 64, 128, 256, 512],
    "TILES": [1, 4, 16, 64],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def column_sum_atomic_kernel(
    x_ptr, out_ptr, M, N, ROWS: tl.constexpr, COLS: tl.constexpr, TILES: tl.constexpr
):
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    total = tl.zeros((COLS,), dtype=tl.float32)
    for tile in range(TILES):
        rows = (tl.program_id(0) * TILES + tile) * ROWS + tl.arange(0, ROWS)
        inside = (rows < M)[:, None] & (cols < N)[None, :]
        x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=inside, other=0.0)
        total += tl.sum(x.to(tl.float32), axis=0)
    tl.atomic_add(out_ptr + cols, total, mask=cols < N, sem="relaxed")


def valid(params, shape):
    """One to 64 values a thread; at most 16384 programs a column, and not far too few rows."""
    held = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    rows = params["ROWS"] * params["TILES"]
    busy = shape["M"] / rows <= 16384
    return 1 <= held <= 64 and busy and (rows < 2 * shape["M"] or rows <= 64)


def kernel(x, *, ROWS=16, COLS=64, TILES=4, num_warps=4):
    M, N = x.shape
    out = torch.zeros(N, dtype=torch.float32, device=x.device)
    grid = (triton.cdiv(M, ROWS * TILES), triton.cdiv(N, COLS))
    column_sum_atomic_kernel[grid](x, out, M, N, ROWS, COLS, TILES, num_warps=num_warps)
    return out
