"""Log-softmax of strips of rows, tiles copied by the TMA unit, an online peak and sum per row."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.datasets.zoo.log_softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "COLS": [64, 128, 256, 512, 1024],
    "STORE_TMA": [True, False],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 4],
}


@triton.jit
def tma_strips_kernel(
    x_tiles, y_tiles, y_ptr, M, N, ROWS: tl.constexpr, COLS: tl.constexpr,
    STORE_TMA: tl.constexpr,
):  # fmt: skip
    top = tl.program_id(0) * ROWS
    peak = tl.full((ROWS,), -1e30, dtype=tl.float32)
    total = tl.zeros((ROWS,), dtype=tl.float32)
    for left in range(0, N, COLS):
        x = x_tiles.load([top, left]).to(tl.float32)
        x = tl.where((left + tl.arange(0, COLS))[None, :] < N, x, -1e30)
        higher = tl.maximum(peak, tl.max(x, axis=1))
        total = total * tl.exp(peak - higher) + tl.sum(tl.exp(x - higher[:, None]), axis=1)
        peak = higher
    lse = (peak + tl.log(total))[:, None]
    for left in range(0, N, COLS):
        y = (x_tiles.load([top, left]).to(tl.float32) - lse).to(y_tiles.dtype)
        if STORE_TMA:
            y_tiles.store([top, left], y)
        else:
            rows = (top + tl.arange(0, ROWS))[:, None]
            cols = (left + tl.arange(0, COLS))[None, :]
            mask = (rows < M) & (cols < N)
            tl.store(y_ptr + rows.to(tl.int64) * N + cols, y, mask=mask)


def valid(params, shape):
    """Rows of a multiple of 16 bytes; one to 32 values a thread; tiles that fit."""
    tile = params["ROWS"] * params["COLS"]
    fits = 4 * tile * (params["num_stages"] + 1) <= 227 * 1024
    near = params["COLS"] < 2 * shape["N"] and 32 * params["ROWS"] <= shape["M"]
    aligned = shape["N"] % 8 == 0
    short = shape["N"] <= 512 * params["COLS"]  # a longer loop takes milliseconds
    return short and aligned and near and fits and 1 <= tile / (32 * params["num_warps"]) <= 32


def kernel(x, *, ROWS=2, COLS=256, STORE_TMA=True, num_warps=4, num_stages=2):
    M, N = x.shape
    y = torch.empty_like(x)
    tma_strips_kernel[(triton.cdiv(M, ROWS),)](
        TensorDescriptor.from_tensor(x, [ROWS, COLS]),
        TensorDescriptor.from_tensor(y, [ROWS, COLS]),
        y, M, N, ROWS, COLS, STORE_TMA, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return y
