"""Sums of stripes of rows; torch makes mean and scale of these; a kernel applies both."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.two_pass_standardise.problem import (
    EPS,
    SHAPES,
    TOLERANCE,
    inputs,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [8, 16, 32],
    "COLS": [32, 64, 128],
    "STRIPES": [64, 264, 1056],
    "num_warps": [4, 8],
}


@triton.jit
def moment_kernel(x_ptr, parts_ptr, M, N, ROWS: tl.constexpr, COLS: tl.constexpr):
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    total = tl.zeros((ROWS, COLS), dtype=tl.float32)
    squares = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for start in range(tl.program_id(1) * ROWS, M, tl.num_programs(1) * ROWS):
        rows = start + tl.arange(0, ROWS)
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=inside, other=0.0)
        x = x.to(tl.float32)
        total += x
        squares += x * x
    slot = tl.program_id(1) * 2 * N + cols
    tl.store(parts_ptr + slot, tl.sum(total, axis=0), mask=cols < N)
    tl.store(parts_ptr + slot + N, tl.sum(squares, axis=0), mask=cols < N)


@triton.jit
def apply_kernel(x_ptr, mean_ptr, scale_ptr, out_ptr, M, N, ROWS: tl.constexpr, COLS: tl.constexpr):
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)[None, :]
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = (rows < M) & (cols < N)
    mean = tl.load(mean_ptr + cols, mask=cols < N, other=0.0)
    scale = tl.load(scale_ptr + cols, mask=cols < N, other=0.0)
    x = tl.load(x_ptr + rows * N + cols, mask=inside, other=0.0).to(tl.float32)
    out = ((x - mean) * scale).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + rows * N + cols, out, mask=inside)


def valid(params, shape):
    """Two to 16 elements a thread; no band far wider than a row, no more stripes than fit."""
    each = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    fits = params["COLS"] < 2 * max(shape["N"], 32)
    return fits and 2 <= each <= 16 and params["STRIPES"] * params["ROWS"] <= 2 * shape["M"]


def kernel(x, *, ROWS=16, COLS=32, STRIPES=64, num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    parts = torch.empty((STRIPES, 2, N), dtype=torch.float32, device=x.device)
    across = triton.cdiv(N, COLS)
    moment_kernel[(across, STRIPES)](x, parts, M, N, ROWS, COLS, num_warps=num_warps)
    mean, square = parts.sum(0).div_(M)
    scale = torch.rsqrt((square - mean * mean).clamp_(min=0) + EPS)
    apply_kernel[(triton.cdiv(M, ROWS), across)](
        x, mean, scale, out, M, N, ROWS, COLS, num_warps=num_warps
    )
    return out
