"""A fixed number of programs walk all tiles, addressed by block pointers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.transpose.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [16, 32, 64, 128],
    "PROGRAMS": [132, 528, 1056],
    "GROUP": [1, 8],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def walking_kernel(
    x_ptr, out_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr
):
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    x_block = tl.make_block_ptr(x_ptr, (M, N), (N, 1), (0, 0), (BLOCK_M, BLOCK_N), (1, 0))
    out_block = tl.make_block_ptr(out_ptr, (N, M), (M, 1), (0, 0), (BLOCK_N, BLOCK_M), (1, 0))
    for tile in range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):
        # GROUP rows of tiles are walked column by column
        first = tile // (GROUP * tiles_n) * GROUP
        high = min(tiles_m - first, GROUP)
        m = (first + tile % (GROUP * tiles_n) % high) * BLOCK_M
        n = tile % (GROUP * tiles_n) // high * BLOCK_N
        x = tl.load(tl.advance(x_block, (m, n)), boundary_check=(0, 1))
        tl.store(tl.advance(out_block, (n, m)), tl.trans(x), boundary_check=(0, 1))


def valid(params, shape):
    """Two to 64 elements a thread; hardly more programs than tiles."""
    m, n = params["BLOCK_M"], params["BLOCK_N"]
    tiles = triton.cdiv(shape["M"], m) * triton.cdiv(shape["N"], n)
    return params["PROGRAMS"] <= max(tiles, 132) and 2 <= m * n / (32 * params["num_warps"]) <= 64


def kernel(x, *, BLOCK_M=32, BLOCK_N=32, PROGRAMS=132, GROUP=1, num_warps=4):
    M, N = x.shape
    out = torch.empty((N, M), dtype=x.dtype, device=x.device)
    walking_kernel[(PROGRAMS,)](x, out, M, N, BLOCK_M, BLOCK_N, GROUP, num_warps=num_warps)
    return out
