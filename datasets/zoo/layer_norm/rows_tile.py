"""Layer normalisation of several whole rows a program, which share one load of the weights."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.layer_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "GROUPS": [1, 2, 4],
    "VARIANCE": ["centred", "squares"],
    "STORE_CACHE": ["", ".cs"],
    "num_warps": [1, 2, 4, 8, 16, 32],
}


@triton.jit
def rows_tile_kernel(
    X, W, B, Y, M, N, eps, ROWS: tl.constexpr, GROUPS: tl.constexpr, COLS: tl.constexpr,
    CENTRED: tl.constexpr, STORE_CACHE: tl.constexpr,
):  # fmt: skip
    c = tl.arange(0, COLS)
    w = tl.load(W + c, mask=c < N, other=0.0).to(tl.float32)[None, :]
    b = tl.load(B + c, mask=c < N, other=0.0).to(tl.float32)[None, :]
    first = tl.program_id(0).to(tl.int64) * ROWS * GROUPS
    for group in tl.static_range(GROUPS):
        r = first + group * ROWS + tl.arange(0, ROWS)
        keep = (r[:, None] < M) & (c[None, :] < N)
        x = tl.load(X + r[:, None] * N + c[None, :], mask=keep, other=0.0).to(tl.float32)
        mean = (tl.sum(x, axis=1) / N)[:, None]
        if CENTRED:
            d = tl.where(keep, x - mean, 0.0)
            rstd = tl.rsqrt((tl.sum(d * d, axis=1) / N)[:, None] + eps)
        else:
            rstd = tl.rsqrt((tl.sum(x * x, axis=1) / N)[:, None] - mean * mean + eps)
        y = (x - mean) * rstd * w + b
        y = y.to(Y.dtype.element_ty)
        tl.store(Y + r[:, None] * N + c[None, :], y, mask=keep, cache_modifier=STORE_CACHE)


def valid(params, shape):
    """One to 64 values a thread, of rows that registers hold."""
    cols = triton.next_power_of_2(shape["N"])
    held = params["ROWS"] * cols / (32 * params["num_warps"])
    return cols <= 16384 and 1 <= held <= 64


def kernel(x, weight, bias, *, ROWS=1, GROUPS=1, VARIANCE="squares", STORE_CACHE="", num_warps=8):
    M, N = x.shape
    y = torch.empty_like(x)
    cols = triton.next_power_of_2(N)
    rows_tile_kernel[(triton.cdiv(M, ROWS * GROUPS),)](
        x, weight, bias, y, M, N, EPS, ROWS, GROUPS, cols, VARIANCE == "centred",
        STORE_CACHE,         num_warps=num_warps,
    )  # fmt: skip
    return y
