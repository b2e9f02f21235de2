"""A program takes a bag and a band of columns; its members come in tiles of rows."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.embedding_bag.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 4, 8, 16, 32],
    "COLS": [32, 64, 128, 256],
    "STAGES": [1, 3],
    "num_warps": [1, 2, 4],
}


@triton.jit
def bag_kernel(
    table_ptr, index_ptr, weights_ptr, offsets_ptr, out_ptr, D,
    ROWS: tl.constexpr, COLS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    bag = tl.program_id(0)
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    end = tl.load(offsets_ptr + bag + 1)
    total = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for start in tl.range(tl.load(offsets_ptr + bag), end, ROWS, num_stages=STAGES):
        i = start + tl.arange(0, ROWS)
        row = tl.load(index_ptr + i, mask=i < end, other=0)
        weight = tl.load(weights_ptr + i, mask=i < end, other=0.0)
        inside = (i[:, None] < end) & (cols[None, :] < D)
        rows = tl.load(table_ptr + row[:, None] * D + cols[None, :], mask=inside, other=0.0)
        total += rows.to(tl.float32) * weight[:, None]
    total = tl.sum(total, axis=0).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + bag * D + cols, total, mask=cols < D)


def valid(params, shape):
    """One to 16 values a thread, no band far wider than a row."""
    held = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    return 1 <= held <= 16 and params["COLS"] < 2 * max(shape["D"], 32)


def kernel(table, index, weights, offsets, *, ROWS=8, COLS=32, STAGES=1, num_warps=1):
    BAGS, D = offsets.shape[0] - 1, table.shape[1]
    out = torch.empty((BAGS, D), dtype=table.dtype, device=table.device)
    bag_kernel[(BAGS, triton.cdiv(D, COLS))](
        table, index, weights, offsets, out, D, ROWS, COLS, STAGES, num_warps=num_warps
    )
    return out
