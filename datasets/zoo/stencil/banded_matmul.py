"""Neighbours on the tensor cores: a tile with its halo times a band matrix from either side.

Multiplying a halo tile from the left by a band sums vertical neighbours, from the right by
another the horizontal ones. float32 takes three TF32 products.
"""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.stencil.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "TILE_M": [16, 32, 64],
    "TILE_N": [16, 32, 64, 128],
    "HORIZONTAL": ["matmul", "loads"],
    "num_warps": [1, 2, 4, 8],
    "PROGRAMS": [0, 264, 528, 1056],
}


@triton.jit
def band_tile(
    x_ptr, out_ptr, M, N, m0, n0,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, HORIZONTAL: tl.constexpr,
):  # fmt: skip
    m = m0 - 1 + tl.arange(0, TILE_M)[:, None]  # the halo counts: TILE - 2 points are new
    n = n0 - 1 + tl.arange(0, TILE_N)[None, :]
    inside = (m >= 0) & (m < M) & (n >= 0) & (n < N)
    x = tl.load(x_ptr + m * N + n, mask=inside, other=0.0)
    i, j = tl.arange(0, TILE_M)[:, None], tl.arange(0, TILE_M)[None, :]
    band = tl.where(i == j, 0.5, tl.where((i - j == 1) | (j - i == 1), 0.125, 0.0))
    out = tl.dot(band.to(x.dtype), x, input_precision="tf32x3")
    if HORIZONTAL == "matmul":
        p, q = tl.arange(0, TILE_N)[:, None], tl.arange(0, TILE_N)[None, :]
        sides = tl.where((p - q == 1) | (q - p == 1), 0.125, 0.0)
        out = tl.dot(x, sides.to(x.dtype), out, input_precision="tf32x3")
    else:
        left = tl.load(x_ptr + m * N + n - 1, mask=inside & (n > 0), other=0.0)
        right = tl.load(x_ptr + m * N + n + 1, mask=inside & (n < N - 1), other=0.0)
        out += 0.125 * (left.to(tl.float32) + right.to(tl.float32))
    new = inside & (m >= m0) & (m < m0 + TILE_M - 2) & (n >= n0) & (n < n0 + TILE_N - 2)
    tl.store(out_ptr + m * N + n, out.to(out_ptr.dtype.element_ty), mask=new)


@triton.jit
def band_kernel(
    x_ptr, out_ptr, M, N,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, HORIZONTAL: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(N, TILE_N - 2)
    tiles = tl.cdiv(M, TILE_M - 2) * tiles_n
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        m0, n0 = tile // tiles_n * (TILE_M - 2), tile % tiles_n * (TILE_N - 2)
        band_tile(x_ptr, out_ptr, M, N, m0, n0, TILE_M, TILE_N, HORIZONTAL)


def valid(params, shape):
    """Four to 32 points a thread, to 8 in float32; PROGRAMS = 0 stands for one a tile."""
    each = params["TILE_M"] * params["TILE_N"] / (32 * params["num_warps"])
    return 4 <= each <= (8 if shape["dtype"] in ("float32", torch.float32) else 32)


def kernel(x, *, TILE_M=32, TILE_N=32, HORIZONTAL="loads", PROGRAMS=0, num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    tiles = triton.cdiv(M, TILE_M - 2) * triton.cdiv(N, TILE_N - 2)
    grid = (min(PROGRAMS or tiles, tiles),)
    band_kernel[grid](x, out, M, N, TILE_M, TILE_N, HORIZONTAL, num_warps=num_warps)
    return out
