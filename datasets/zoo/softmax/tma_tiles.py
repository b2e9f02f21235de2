"""Softmax of tiles of whole rows that the TMA unit copies in and out."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

from triton.tools.tensor_descriptor import TensorDescriptor

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32, 64],
    "TILES": [1, 2, 4, 8],
    "EXP2": [True, False],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2],
}


@triton.jit
def tma_tiles_kernel(
    x_tiles, y_tiles, N, ROWS: tl.constexpr, COLS: tl.constexpr, TILES: tl.constexpr,
    EXP2: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * TILES * ROWS
    real = (tl.arange(0, COLS) < N)[None, :]  # the unit fills what lies outside with zeros
    for tile in range(TILES):
        top = first + tile * ROWS
        x = tl.where(real, x_tiles.load([top, 0]).to(tl.float32), float("-inf"))
        if EXP2:
            x *= 1.4426950408889634
            w = tl.exp2(x - tl.max(x, axis=1)[:, None])
        else:
            w = tl.exp(x - tl.max(x, axis=1)[:, None])
        y = w * (1.0 / tl.sum(w, axis=1))[:, None]
        y_tiles.store([top, 0], y.to(y_tiles.dtype))


def valid(params, shape):
    """Rows of a multiple of 16 bytes, tiles within registers and shared memory."""
    tile = params["ROWS"] * triton.next_power_of_2(shape["N"])
    held = tile / (32 * params["num_warps"])
    fits = 4 * tile * (params["num_stages"] + 1) <= 227 * 1024
    return shape["N"] % 8 == 0 and shape["N"] <= 8192 and 2 <= held <= 64 and fits


def kernel(x, *, ROWS=1, TILES=1, EXP2=True, num_warps=4, num_stages=1):
    M, N = x.shape
    y = torch.empty_like(x)
    cols = triton.next_power_of_2(N)
    tma_tiles_kernel[(triton.cdiv(M, ROWS * TILES),)](
        TensorDescriptor.from_tensor(x, [ROWS, cols]),
        TensorDescriptor.from_tensor(y, [ROWS, cols]),
        N, ROWS, cols, TILES, EXP2, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return y
