"""Differences squared and added dimension by dimension: no cancellation, no tensor cores."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.pairwise_distance.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [8, 16, 32, 64, 128],
    "BLOCK_N": [16, 32, 64, 128],
    "UNROLL": [1, 2, 4],
    "COLUMNS_FIRST": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def difference_kernel(
    x_ptr, y_ptr, out_ptr, M, N, D,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, UNROLL: tl.constexpr,
    COLUMNS_FIRST: tl.constexpr,
):  # fmt: skip
    tile, tiles_m, tiles_n = tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    if COLUMNS_FIRST:
        tile_m, tile_n = tile % tiles_m, tile // tiles_m
    else:
        tile_m, tile_n = tile // tiles_n, tile % tiles_n
    m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for d in tl.range(0, D, loop_unroll_factor=UNROLL):
        x = tl.load(x_ptr + m * D + d, mask=m < M, other=0.0).to(tl.float32)
        y = tl.load(y_ptr + n * D + d, mask=n < N, other=0.0).to(tl.float32)
        gap = x[:, None] - y[None, :]
        acc += gap * gap
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc, mask=inside)


def valid(params, shape):
    """Two to 64 distances a thread; tiles not far larger than the result."""
    m, n = params["BLOCK_M"], params["BLOCK_N"]
    return n < 2 * shape["N"] and 2 <= m * n / (32 * params["num_warps"]) <= 64


def kernel(x, y, *, BLOCK_M=32, BLOCK_N=64, UNROLL=2, COLUMNS_FIRST=False, num_warps=4):
    M, D = x.shape
    N = y.shape[0]
    out = torch.empty((M, N), dtype=torch.float32, device=x.device)
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    difference_kernel[grid](
        x, y, out, M, N, D, BLOCK_M, BLOCK_N, UNROLL, COLUMNS_FIRST, num_warps=num_warps
    )
    return out
