"""Residual and RMS normalisation of a tile of whole rows a program."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.add_rms_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "TRANSPOSED": [False, True],
    "WEIGHT_FIRST": [True, False],
    "STORE_EVICT": ["", "evict_first"],
    "num_warps": [1, 2, 4, 8, 16, 32],
}


@triton.jit
def rows_tile_kernel(
    X, R, W, Y, S, M, N, eps, ROWS: tl.constexpr, COLS: tl.constexpr, TRANSPOSED: tl.constexpr,
    WEIGHT_FIRST: tl.constexpr, STORE_EVICT: tl.constexpr,
):  # fmt: skip
    row_axis: tl.constexpr = 1 if TRANSPOSED else 0
    m = tl.expand_dims(tl.program_id(0) * ROWS + tl.arange(0, ROWS), 1 - row_axis)
    n = tl.expand_dims(tl.arange(0, COLS), row_axis)
    at = m.to(tl.int64) * N + n
    keep = (m < M) & (n < N)
    if WEIGHT_FIRST:
        w = tl.load(W + n, mask=n < N, other=0.0).to(tl.float32)
    s = tl.load(X + at, mask=keep, other=0.0).to(tl.float32)
    s += tl.load(R + at, mask=keep, other=0.0).to(tl.float32)
    tl.store(S + at, s.to(S.dtype.element_ty), mask=keep, eviction_policy=STORE_EVICT)
    rstd = 1.0 / tl.sqrt(tl.sum(s * s, axis=1 - row_axis, keep_dims=True) / N + eps)
    if not WEIGHT_FIRST:
        w = tl.load(W + n, mask=n < N, other=0.0).to(tl.float32)
    y = s * rstd * w
    tl.store(Y + at, y.to(Y.dtype.element_ty), mask=keep, eviction_policy=STORE_EVICT)


def valid(params, shape):
    """One to 64 values a thread, of rows that registers hold."""
    cols = triton.next_power_of_2(shape["N"])
    held = params["ROWS"] * cols / (32 * params["num_warps"])
    return cols <= 8192 and 1 <= held <= 64 and params["ROWS"] <= shape["M"]


def kernel(
    x, residual, weight, *, ROWS=1, TRANSPOSED=False, WEIGHT_FIRST=True, STORE_EVICT="",
    num_warps=8,
):  # fmt: skip
    M, N = x.shape
    y, s = torch.empty_like(x), torch.empty_like(x)
    rows_tile_kernel[(triton.cdiv(M, ROWS),)](
        x, residual, weight, y, s, M, N, EPS, ROWS, triton.next_power_of_2(N), TRANSPOSED,
        WEIGHT_FIRST, STORE_EVICT, num_warps=num_warps,
    )  # fmt: skip
    return y, s
