"""A program takes a band of columns of some rows and adds them one row after the other."""

import triton
import triton.language as tl

from solkit.datasets.zoo.index_add_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "EACH": [1, 2, 4, 8, 16],
    "COLS": [32, 64, 128, 256, 512],
    "num_warps": [1, 2, 4],
}


@triton.jit
def rows_kernel(rows_ptr, index_ptr, out_ptr, T, D, factor, EACH: tl.constexpr, COLS: tl.constexpr):
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    for turn in tl.static_range(EACH):
        t = tl.program_id(0) * EACH + turn
        inside = (cols < D) & (t < T)
        target = tl.load(index_ptr + t, mask=t < T, other=0)
        row = tl.load(rows_ptr + t * D + cols, mask=inside, other=0.0).to(tl.float32)
        tl.atomic_add(out_ptr + target * D + cols, row * factor, mask=inside, sem="relaxed")


def valid(params, shape):
    """One to 8 columns a thread, no band far wider than a row."""
    held = params["COLS"] / (32 * params["num_warps"])
    return 1 <= held <= 8 and params["COLS"] < 2 * max(shape["D"], 32)


def kernel(table, rows, index, factor, *, EACH=4, COLS=32, num_warps=1):
    T, D = rows.shape
    out = table.clone()
    grid = (triton.cdiv(T, EACH), triton.cdiv(D, COLS))
    rows_kernel[grid](rows, index, out, T, D, factor, EACH, COLS, num_warps=num_warps)
    return out
