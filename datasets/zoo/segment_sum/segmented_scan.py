"""A segmented scan down each tile; the last row of each run is added atomically."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.segment_sum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [4, 8, 16, 32, 64, 128],
    "COLS": [8, 16, 32, 64, 128],
    "ORDER": ["columns", "rows"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def join_runs(a_id, a_sum, b_id, b_sum):
    return b_id, tl.where(a_id == b_id, a_sum + b_sum, b_sum)


@triton.jit
def scan_kernel(
    rows_ptr, ids_ptr, out_ptr, T, D, ROWS: tl.constexpr, COLS: tl.constexpr, ORDER: tl.constexpr
):
    across = tl.cdiv(D, COLS)
    down = tl.cdiv(T, ROWS)
    pid = tl.program_id(0)
    m, n = (pid // across, pid % across) if ORDER == "columns" else (pid % down, pid // down)
    t = m * ROWS + tl.arange(0, ROWS)
    cols = n * COLS + tl.arange(0, COLS)
    ids = tl.load(ids_ptr + t, mask=t < T, other=-1)
    following = tl.load(ids_ptr + t + 1, mask=t + 1 < T, other=-1)
    inside = (t[:, None] < T) & (cols[None, :] < D)
    rows = tl.load(rows_ptr + t[:, None] * D + cols[None, :], mask=inside, other=0.0)
    wide = tl.broadcast_to(ids[:, None], (ROWS, COLS))
    _, sums = tl.associative_scan((wide, rows.to(tl.float32)), 0, join_runs)
    last = (ids != following) | (tl.arange(0, ROWS) == ROWS - 1)
    target = out_ptr + ids[:, None] * D + cols[None, :]
    tl.atomic_add(target, sums, mask=inside & last[:, None], sem="relaxed")


def valid(params, shape):
    """One to 32 values a thread, no tile far wider than a row."""
    held = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    return 1 <= held <= 32 and params["COLS"] < 2 * shape["D"]


def kernel(rows, ids, offsets, *, ROWS=32, COLS=32, ORDER="columns", num_warps=4):
    T, D = rows.shape
    out = torch.zeros((offsets.shape[0] - 1, D), dtype=torch.float32, device=rows.device)
    grid = (triton.cdiv(T, ROWS) * triton.cdiv(D, COLS),)
    scan_kernel[grid](rows, ids, out, T, D, ROWS, COLS, ORDER, num_warps=num_warps)
    return out
