"""A program takes a row and a band of columns; nonzeros come in chunks."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.csr_spmm.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "CHUNK": [1, 4, 8, 16, 32],
    "COLS": [32, 64, 128, 256],
    "STAGES": [1, 2],
    "num_warps": [1, 2, 4],
}


@triton.jit
def row_kernel(
    row_ptr, cols_ptr, values_ptr, x_ptr, out_ptr, D,
    CHUNK: tl.constexpr, COLS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    d = tl.program_id(1) * COLS + tl.arange(0, COLS)
    end = tl.load(row_ptr + row + 1)
    total = tl.zeros((CHUNK, COLS), dtype=tl.float32)
    for start in tl.range(tl.load(row_ptr + row), end, CHUNK, num_stages=STAGES):
        i = start + tl.arange(0, CHUNK)
        col = tl.load(cols_ptr + i, mask=i < end, other=0)
        value = tl.load(values_ptr + i, mask=i < end, other=0.0).to(tl.float32)
        mask = (i[:, None] < end) & (d[None, :] < D)
        x = tl.load(x_ptr + col[:, None] * D + d[None, :], mask=mask, other=0.0)
        total += value[:, None] * x.to(tl.float32)
    total = tl.sum(total, axis=0).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + row * D + d, total, mask=d < D)


def valid(params, shape):
    """One to 16 values a thread, no band far wider than a row."""
    held = params["CHUNK"] * params["COLS"] / (32 * params["num_warps"])
    return 1 <= held <= 16 and params["COLS"] < 2 * max(shape["D"], 32)


def kernel(row_ptr, cols, values, x, *, CHUNK=8, COLS=32, STAGES=1, num_warps=1):
    M, D = row_ptr.numel() - 1, x.shape[1]
    out = torch.empty((M, D), dtype=x.dtype, device=x.device)
    row_kernel[(M, triton.cdiv(D, COLS))](
        row_ptr, cols, values, x, out, D, CHUNK, COLS, STAGES, num_warps=num_warps
    )
    return out
