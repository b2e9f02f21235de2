"""A strip of tiles a program, each loaded while the one before is stored."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.transpose.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [16, 32, 64, 128],
    "TILES": [2, 4, 8],
    "DOWN": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def read(x_ptr, m, n, M, N):
    inside = (m[:, None] < M) & (n[None, :] < N)
    return tl.load(x_ptr + m[:, None] * N + n[None, :], mask=inside)


@triton.jit
def strip_kernel(
    x_ptr, out_ptr, M, N,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, TILES: tl.constexpr, DOWN: tl.constexpr,
):  # fmt: skip
    step_m: tl.constexpr = BLOCK_M if DOWN else 0
    step_n: tl.constexpr = 0 if DOWN else BLOCK_N
    m = tl.program_id(1) * (BLOCK_M + (TILES - 1) * step_m) + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * (BLOCK_N + (TILES - 1) * step_n) + tl.arange(0, BLOCK_N)
    coming = read(x_ptr, m, n, M, N)
    for tile in tl.static_range(TILES):
        x = coming
        if tile < TILES - 1:
            coming = read(x_ptr, m + step_m, n + step_n, M, N)
        inside = (n[:, None] < N) & (m[None, :] < M)
        tl.store(out_ptr + n[:, None] * M + m[None, :], tl.trans(x), mask=inside)
        m += step_m
        n += step_n


def valid(params, shape):
    """Two to 32 elements of a tile a thread; the strip is no longer than its side."""
    m, n, down = params["BLOCK_M"], params["BLOCK_N"], params["DOWN"]
    fits = m < 2 * shape["M"] and n < 2 * shape["N"]
    strip, side = (m, shape["M"]) if down else (n, shape["N"])
    each = m * n / (32 * params["num_warps"])
    return fits and params["TILES"] * strip < 2 * side and 2 <= each <= 32


def kernel(x, *, BLOCK_M=32, BLOCK_N=32, TILES=2, DOWN=False, num_warps=4):
    M, N = x.shape
    out = torch.empty((N, M), dtype=x.dtype, device=x.device)
    high, wide = (BLOCK_M * TILES, BLOCK_N) if DOWN else (BLOCK_M, BLOCK_N * TILES)
    grid = (triton.cdiv(N, wide), triton.cdiv(M, high))
    strip_kernel[grid](x, out, M, N, BLOCK_M, BLOCK_N, TILES, DOWN, num_warps=num_warps)
    return out
