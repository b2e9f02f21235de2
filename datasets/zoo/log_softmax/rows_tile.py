"""Log-softmax of several whole rows a program, loaded in turn and reduced as one tile."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.log_softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "TILES": [1, 2, 4],
    "UNROLL": [False, True],
    "STORE_CACHE": ["", ".cs"],
    "num_warps": [1, 2, 4, 8, 16, 32],
}


@triton.jit
def log_softmax_rows(x, mask):
    x = tl.where(mask, x.to(tl.float32), -1e30)
    x -= tl.max(x, axis=1, keep_dims=True)
    return x - tl.log(tl.sum(tl.exp(x), axis=1, keep_dims=True))


@triton.jit
def rows_tile_kernel(
    src, dst, M, N, ROWS: tl.constexpr, COLS: tl.constexpr, TILES: tl.constexpr,
    UNROLL: tl.constexpr, STORE_CACHE: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, COLS)[None, :]
    rows = (tl.program_id(0) * TILES * ROWS + tl.arange(0, ROWS))[:, None].to(tl.int64)
    if UNROLL:
        for tile in tl.static_range(TILES):
            at = (rows + tile * ROWS) * N + cols
            mask = (rows + tile * ROWS < M) & (cols < N)
            y = log_softmax_rows(tl.load(src + at, mask=mask, other=0.0), mask)
            tl.store(dst + at, y.to(dst.dtype.element_ty), mask=mask, cache_modifier=STORE_CACHE)
    else:
        for tile in range(TILES):
            at = (rows + tile * ROWS) * N + cols
            mask = (rows + tile * ROWS < M) & (cols < N)
            y = log_softmax_rows(tl.load(src + at, mask=mask, other=0.0), mask)
            tl.store(dst + at, y.to(dst.dtype.element_ty), mask=mask, cache_modifier=STORE_CACHE)


def valid(params, shape):
    """One to 64 values a thread; a loop of one tile is unrolled either way."""
    cols = triton.next_power_of_2(shape["N"])
    held = params["ROWS"] * cols / (32 * params["num_warps"])
    distinct = params["TILES"] > 1 or params["UNROLL"]
    return distinct and cols <= 8192 and 1 <= held <= 64


def kernel(x, *, ROWS=1, TILES=1, UNROLL=True, STORE_CACHE="", num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    cols = triton.next_power_of_2(N)
    rows_tile_kernel[(triton.cdiv(M, ROWS * TILES),)](
        x, out, M, N, ROWS, cols, TILES, UNROLL, STORE_CACHE, num_warps=num_warps
    )
    return out
