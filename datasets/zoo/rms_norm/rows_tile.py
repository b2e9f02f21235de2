"""RMS normalisation of a tile of whole rows a program."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.rms_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "TRANSPOSED": [False, True],
    "LOAD_EVICT": ["", "evict_first"],
    "STORE_EVICT": ["", "evict_first"],
    "num_warps": [1, 2, 4, 8, 16, 32],
}


@triton.jit
def rows_tile_kernel(
    X, W, Y, n_rows, n_cols, eps, ROWS: tl.constexpr, COLS: tl.constexpr,
    TRANSPOSED: tl.constexpr, LOAD_EVICT: tl.constexpr, STORE_EVICT: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    offs_n = tl.arange(0, COLS)
    w = tl.load(W + offs_n, mask=offs_n < n_cols, other=0.0).to(tl.float32)
    if TRANSPOSED:
        ptrs = offs_m[None, :] * n_cols + offs_n[:, None]
        keep = (offs_m < n_rows)[None, :] & (offs_n < n_cols)[:, None]
        x = tl.load(X + ptrs, mask=keep, other=0.0, eviction_policy=LOAD_EVICT).to(tl.float32)
        rms = tl.sqrt(tl.sum(x * x, axis=0) / n_cols + eps)
        y = x * (1.0 / rms)[None, :] * w[:, None]
    else:
        ptrs = offs_m[:, None] * n_cols + offs_n[None, :]
        keep = (offs_m < n_rows)[:, None] & (offs_n < n_cols)[None, :]
        x = tl.load(X + ptrs, mask=keep, other=0.0, eviction_policy=LOAD_EVICT).to(tl.float32)
        rms = tl.sqrt(tl.sum(x * x, axis=1) / n_cols + eps)
        y = x * (1.0 / rms)[:, None] * w[None, :]
    tl.store(Y + ptrs, y.to(Y.dtype.element_ty), mask=keep, eviction_policy=STORE_EVICT)


def valid(params, shape):
    """One to 64 values a thread, of rows that registers hold."""
    cols = triton.next_power_of_2(shape["N"])
    held = params["ROWS"] * cols / (32 * params["num_warps"])
    return cols <= 16384 and 1 <= held <= 64 and params["ROWS"] <= shape["M"]


def kernel(x, weight, *, ROWS=1, TRANSPOSED=False, LOAD_EVICT="", STORE_EVICT="", num_warps=8):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    cols = triton.next_power_of_2(n_cols)
    rows_tile_kernel[(triton.cdiv(n_rows, ROWS),)](
        x, weight, y, n_rows, n_cols, EPS, ROWS, cols, TRANSPOSED, LOAD_EVICT, STORE_EVICT,
        num_warps=num_warps,
    )  # fmt: skip
    return y
