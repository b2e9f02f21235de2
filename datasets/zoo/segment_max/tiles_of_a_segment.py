"""A program takes a segment and a band of columns in tiles of rows."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.segment_max.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "COLS": [16, 32, 64, 128, 256],
    "STAGES": [1, 3],
    "num_warps": [1, 2, 4],
}


@triton.jit
def segment_kernel(
    rows_ptr, offsets_ptr, out_ptr, D, ROWS: tl.constexpr, COLS: tl.constexpr, STAGES: tl.constexpr
):
    segment = tl.program_id(0)
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    end = tl.load(offsets_ptr + segment + 1)
    most = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for start in tl.range(tl.load(offsets_ptr + segment), end, ROWS, num_stages=STAGES):
        t = start + tl.arange(0, ROWS)
        inside = (t[:, None] < end) & (cols[None, :] < D)
        rows = tl.load(rows_ptr + t[:, None] * D + cols[None, :], mask=inside, other=0.0)
        most = tl.maximum(most, rows.to(tl.float32))
    tl.store(out_ptr + segment * D + cols, tl.max(most, axis=0), mask=cols < D)


def valid(params, shape):
    """One to 16 values a thread, no band far wider than a row."""
    held = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    return 1 <= held <= 16 and params["COLS"] < 4 * shape["D"]


def kernel(rows, ids, offsets, *, ROWS=8, COLS=32, STAGES=3, num_warps=2):
    S, D = offsets.shape[0] - 1, rows.shape[1]
    out = torch.empty((S, D), dtype=torch.float32, device=rows.device)
    segment_kernel[(S, triton.cdiv(D, COLS))](
        rows, offsets, out, D, ROWS, COLS, STAGES, num_warps=num_warps
    )
    return out
