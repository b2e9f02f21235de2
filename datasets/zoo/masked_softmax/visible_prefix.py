"""Causal softmax that loops over a strip's visible keys twice, then fills up with zeros."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.masked_softmax.problem import SCALE, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "COLS": [32, 64, 128, 256, 512],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 4],
}


@triton.jit
def visible_prefix_kernel(x_ptr, y_ptr, Q, K, scale, ROWS: tl.constexpr, COLS: tl.constexpr):
    q = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    first = tl.program_id(1).to(tl.int64) * Q * K
    x_rows = x_ptr + first + q[:, None] * K
    y_rows = y_ptr + first + q[:, None] * K
    alive = q[:, None] < Q
    horizon = q[:, None] + K - Q  # the last key that a query sees
    visible = tl.minimum(tl.program_id(0) * ROWS + ROWS + K - Q, K)
    peak = tl.full((ROWS,), -1e30, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    for left in range(0, visible, COLS):
        k = left + tl.arange(0, COLS)[None, :]
        x = tl.load(x_rows + k, mask=alive & (k <= horizon), other=-1e30).to(tl.float32)
        x = tl.where(alive & (k <= horizon), x * scale, -1e30)
        higher = tl.maximum(peak, tl.max(x, axis=1))
        total = total * tl.exp(peak - higher) + tl.sum(tl.exp(x - higher[:, None]), axis=1)
        peak = higher
    for left in range(0, visible, COLS):
        k = left + tl.arange(0, COLS)[None, :]
        x = tl.load(x_rows + k, mask=alive & (k <= horizon), other=0.0).to(tl.float32)
        y = tl.exp(x * scale - peak[:, None]) / total[:, None]
        y = tl.where(k <= horizon, y, 0.0).to(y_ptr.dtype.element_ty)
        tl.store(y_rows + k, y, mask=alive & (k < K))
    nothing = tl.zeros((ROWS, COLS), y_ptr.dtype.element_ty)
    for left in range(tl.cdiv(visible, COLS) * COLS, K, COLS):
        k = left + tl.arange(0, COLS)[None, :]
        tl.store(y_rows + k, nothing, mask=alive & (k < K))


def valid(params, shape):
    """One to 32 values a thread, and no tile far larger than a matrix."""
    held = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    return 1 <= held <= 32 and params["COLS"] < 2 * shape["K"] and params["ROWS"] <= shape["Q"]


def kernel(scores, *, ROWS=4, COLS=128, num_warps=4, num_stages=2):
    B, Q, K = scores.shape
    y = torch.empty_like(scores)
    visible_prefix_kernel[(triton.cdiv(Q, ROWS), B)](
        scores, y, Q, K, SCALE, ROWS, COLS, num_warps=num_warps, num_stages=num_stages
    )
    return y
