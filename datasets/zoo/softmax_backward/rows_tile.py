"""Gradient of softmax for several whole rows a program, in tiles that follow each other."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.softmax_backward.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "TILES": [1, 2, 4],
    "TRANSPOSED": [False, True],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2],
}


@triton.jit
def rows_tile_kernel(
    Y, DY, DX, M, N, ROWS: tl.constexpr, COLS: tl.constexpr, TILES: tl.constexpr,
    TRANSPOSED: tl.constexpr,
):  # fmt: skip
    along: tl.constexpr = 0 if TRANSPOSED else 1
    n = tl.expand_dims(tl.arange(0, COLS), 1 - along)
    for tile in range(TILES):
        m = (tl.program_id(0) * TILES + tile) * ROWS + tl.arange(0, ROWS)
        m = tl.expand_dims(m.to(tl.int64), along)
        keep = (m < M) & (n < N)
        y = tl.load(Y + m * N + n, mask=keep, other=0.0).to(tl.float32)
        dy = tl.load(DY + m * N + n, mask=keep, other=0.0).to(tl.float32)
        dot = tl.sum(y * dy, axis=along, keep_dims=True)
        tl.store(DX + m * N + n, y * (dy - dot), mask=keep)


def valid(params, shape):
    """One to 32 values of each input a thread; pipelined tiles fit in shared memory."""
    tile = params["ROWS"] * triton.next_power_of_2(shape["N"])
    staged = params["num_stages"] == 1 or params["TILES"] > 1
    fits = 8 * tile * params["num_stages"] <= 227 * 1024 and tile <= 16384
    return staged and fits and 1 <= tile / (32 * params["num_warps"]) <= 32


def kernel(y, dy, *, ROWS=1, TILES=1, TRANSPOSED=False, num_warps=4, num_stages=1):
    M, N = y.shape
    dx = torch.empty((M, N), dtype=torch.float32, device=y.device)
    rows_tile_kernel[(triton.cdiv(M, ROWS * TILES),)](
        y, dy, dx, M, N, ROWS, triton.next_power_of_2(N), TILES, TRANSPOSED,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return dx
