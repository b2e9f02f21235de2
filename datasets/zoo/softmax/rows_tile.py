"""Softmax of several whole rows a program, as a two-dimensional tile of either orientation."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32, 64],
    "TRANSPOSED": [False, True],
    "MASK_WEIGHTS": [False, True],
    "STORE_EVICT": ["", "evict_first", "evict_last"],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def rows_tile_kernel(
    X, Y, M, N, ROWS: tl.constexpr, COLS: tl.constexpr, TRANSPOSED: tl.constexpr,
    MASK_WEIGHTS: tl.constexpr, STORE_EVICT: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, COLS)
    if TRANSPOSED:  # the reduction runs down axis 0
        offsets = r[None, :] * N + c[:, None]
        keep = (r[None, :] < M) & (c[:, None] < N)
    else:
        offsets = r[:, None] * N + c[None, :]
        keep = (r[:, None] < M) & (c[None, :] < N)
    axis: tl.constexpr = 0 if TRANSPOSED else 1
    if MASK_WEIGHTS:  # a finite filler, and the weights of columns beyond N set to 0
        x = tl.load(X + offsets, mask=keep, other=-1e30).to(tl.float32)
        e = tl.where(keep, tl.exp(x - tl.max(x, axis=axis, keep_dims=True)), 0.0)
    else:  # rows beyond M turn into NaN, and are never stored
        x = tl.load(X + offsets, mask=keep, other=float("-inf")).to(tl.float32)
        e = tl.exp(x - tl.max(x, axis=axis, keep_dims=True))
    y = e / tl.sum(e, axis=axis, keep_dims=True)
    tl.store(Y + offsets, y.to(Y.dtype.element_ty), mask=keep, eviction_policy=STORE_EVICT)


def valid(params, shape):
    """One to 64 values a thread, of rows that registers hold."""
    cols = triton.next_power_of_2(shape["N"])
    held = params["ROWS"] * cols / (32 * params["num_warps"])
    return cols <= 8192 and 1 <= held <= 64


def kernel(x, *, ROWS=1, TRANSPOSED=False, MASK_WEIGHTS=False, STORE_EVICT="", num_warps=4):
    M, N = x.shape
    y = torch.empty_like(x)
    cols = triton.next_power_of_2(N)
    grid = (triton.cdiv(M, ROWS),)
    rows_tile_kernel[grid](
        x, y, M, N, ROWS, cols, TRANSPOSED, MASK_WEIGHTS, STORE_EVICT, num_warps=num_warps
    )
    return y
