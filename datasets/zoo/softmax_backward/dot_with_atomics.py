"""Gradient of softmax from dot products that blocks of columns add up with atomics."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.softmax_backward.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "COLS": [64, 128, 256, 512, 1024, 2048],
    "SEMANTICS": ["relaxed", "acq_rel"],
    "num_warps": [2, 4, 8],
}


@triton.jit
def dot_kernel(
    y_ptr, dy_ptr, dot_ptr, M, N, ROWS: tl.constexpr, COLS: tl.constexpr, SEM: tl.constexpr
):
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    mask = (rows < M)[:, None] & (cols < N)[None, :]
    at = rows.to(tl.int64)[:, None] * N + cols[None, :]
    y = tl.load(y_ptr + at, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + at, mask=mask, other=0.0).to(tl.float32)
    tl.atomic_add(dot_ptr + rows, tl.sum(y * dy, axis=1), mask=rows < M, sem=SEM)


@triton.jit
def gradient_kernel(y_ptr, dy_ptr, dot_ptr, dx_ptr, M, N, ROWS: tl.constexpr, COLS: tl.constexpr):
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    mask = (rows < M)[:, None] & (cols < N)[None, :]
    at = rows.to(tl.int64)[:, None] * N + cols[None, :]
    dot = tl.load(dot_ptr + rows, mask=rows < M, other=0.0)[:, None]
    y = tl.load(y_ptr + at, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(dx_ptr + at, y * (dy - dot), mask=mask)


def valid(params, shape):
    """Two to 32 values of each input a thread, and no tile far wider than the matrix."""
    held = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    return 2 <= held <= 32 and params["COLS"] < 2 * shape["N"]


def kernel(y, dy, *, ROWS=4, COLS=256, SEMANTICS="relaxed", num_warps=4):
    M, N = y.shape
    dx = torch.empty((M, N), dtype=torch.float32, device=y.device)
    dot = torch.zeros(M, dtype=torch.float32, device=y.device)
    grid = (triton.cdiv(N, COLS), triton.cdiv(M, ROWS))
    dot_kernel[grid](y, dy, dot, M, N, ROWS, COLS, SEMANTICS, num_warps=num_warps)
    gradient_kernel[grid](y, dy, dot, dx, M, N, ROWS, COLS, num_warps=num_warps)
    return dx
