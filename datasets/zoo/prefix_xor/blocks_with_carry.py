"""A program some rows: a scan of each block of columns, and what it adds is carried."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.prefix_xor.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "COLS": [64, 128, 256, 512, 1024],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def xored(a, b):
    return a ^ b


@triton.jit
def scan_kernel(x_ptr, out_ptr, M, N, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    carry = tl.zeros((ROWS,), dtype=tl.int32)
    for start in range(0, N, COLS):
        col = start + tl.arange(0, COLS)
        mask = (row[:, None] < M) & (col[None, :] < N)
        at = row[:, None].to(tl.int64) * N + col[None, :]
        x = tl.load(x_ptr + at, mask=mask, other=0)
        upto = tl.associative_scan(x, 1, xored)
        tl.store(out_ptr + at, upto ^ carry[:, None], mask=mask)
        carry ^= tl.reduce(x, 1, xored)


def valid(params, shape):
    """Two to 16 words a thread; rows enough; no block far longer than a row but for the default."""
    held = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    fits = params["COLS"] < 2 * shape["N"] or params["COLS"] == 256
    return 2 <= held <= 16 and fits and params["ROWS"] <= shape["M"] and shape["M"] >= 100


def kernel(x, *, ROWS=2, COLS=256, num_warps=2):
    M, N = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(M, ROWS),)
    scan_kernel[grid](x, out, M, N, ROWS, COLS, num_warps=num_warps)
    return out
