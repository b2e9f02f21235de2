"""One tile a program, turned over between its load and its store, both along rows of memory."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.transpose.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [8, 16, 32, 64, 128, 256],
    "BLOCK_N": [8, 16, 32, 64, 128, 256],
    "ROWS_FIRST": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def transpose_kernel(
    x_ptr, out_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, ROWS_FIRST: tl.constexpr
):
    tile, tiles_m, tiles_n = tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    if ROWS_FIRST:  # neighbours share rows of x
        tile_m, tile_n = tile // tiles_n, tile % tiles_n
    else:  # neighbours share rows of the result
        tile_m, tile_n = tile % tiles_m, tile // tiles_m
    m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (m[:, None] < M) & (n[None, :] < N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :], mask=inside)
    tl.store(out_ptr + n[:, None] * M + m[None, :], tl.trans(x), mask=tl.trans(inside))


def valid(params, shape):
    """Two to 64 elements a thread, no tile far larger than the matrix."""
    m, n = params["BLOCK_M"], params["BLOCK_N"]
    fits = m < 2 * shape["M"] and n < 2 * shape["N"]
    return fits and 2 <= m * n / (32 * params["num_warps"]) <= 64


def kernel(x, *, BLOCK_M=32, BLOCK_N=64, ROWS_FIRST=True, num_warps=4):
    M, N = x.shape
    out = torch.empty((N, M), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(N, BLOCK_N) * triton.cdiv(M, BLOCK_M),)
    transpose_kernel[grid](x, out, M, N, BLOCK_M, BLOCK_N, ROWS_FIRST, num_warps=num_warps)
    return out
