"""A backward pass with a grid of multiprocessors: each program's rows leave one partial sum."""

import math

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.rms_norm_backward import problem
from solkit.datasets.zoo.rms_norm_backward.problem import EPS, TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]
KIND = "norm"
SHAPES = [problem.SHAPES[place] for place in (2, 3, 5, 6)]
SPACE = {"waves": [1, 2, 4, 8], "num_warps": [2, 4, 8, 16, 32]}


@triton.jit
def _rms_norm_backward(
    dY_ptr, dX_ptr, X_ptr, W_ptr, dW_ptr, row_stride, dW_row_stride, n_rows, n_cols, eps,
    rows_per_program, BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    start = pid * rows_per_program
    end = min(start + rows_per_program, n_rows)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    dW_row = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    W_row = tl.load(W_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    for row in range(start, end):
        dY = tl.load(dY_ptr + row * row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        X = tl.load(X_ptr + row * row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.rsqrt(tl.sum(X * X, axis=0) / n_cols + eps)
        m = dY * W_row
        dX = rstd * m - rstd * rstd * rstd * (tl.sum(m * X, axis=0) / n_cols) * X
        dW_row += dY * X * rstd
        tl.store(dX_ptr + row * row_stride + cols, dX.to(dX_ptr.dtype.element_ty), mask=mask)
    tl.store(dW_ptr + pid * dW_row_stride + cols, dW_row, mask=mask)


def kernel(x, weight, dy, *, waves=1, num_warps=8):
    n_rows, n_cols = x.shape
    sm_count = torch.cuda.get_device_properties(x.device).multi_processor_count * waves
    dx = torch.empty_like(dy)
    _dW = torch.empty((sm_count, n_cols), dtype=torch.float32, device=weight.device)
    _rms_norm_backward[(sm_count,)](
        dy, dx, x, weight, _dW, x.stride(0), _dW.stride(0), n_rows, n_cols, EPS,
        math.ceil(n_rows / sm_count), BLOCK_SIZE=triton.next_power_of_2(n_cols),
        num_warps=num_warps,
    )  # fmt: skip
    return dx, _dW.sum(dim=0)
