"""Five overlapping tiles through block pointers, whose bounds stand for the frame of zeros."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.stencil.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [1, 2, 4, 8, 16, 32],
    "BLOCK_N": [32, 64, 128, 256, 512],
    "COLUMNS_FIRST": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def block_kernel(
    x_ptr, out_ptr, M, N,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, COLUMNS_FIRST: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    if COLUMNS_FIRST:
        m0, n0 = tile % tl.cdiv(M, BLOCK_M) * BLOCK_M, tile // tl.cdiv(M, BLOCK_M) * BLOCK_N
    else:
        m0, n0 = tile // tl.cdiv(N, BLOCK_N) * BLOCK_M, tile % tl.cdiv(N, BLOCK_N) * BLOCK_N
    x = tl.make_block_ptr(x_ptr, (M, N), (N, 1), (m0, n0), (BLOCK_M, BLOCK_N), (1, 0))
    out = tl.make_block_ptr(out_ptr, (M, N), (N, 1), (m0, n0), (BLOCK_M, BLOCK_N), (1, 0))
    here = tl.load(x, boundary_check=(0, 1), padding_option="zero").to(tl.float32)
    up = tl.load(tl.advance(x, (-1, 0)), boundary_check=(0, 1), padding_option="zero")
    down = tl.load(tl.advance(x, (1, 0)), boundary_check=(0, 1), padding_option="zero")
    left = tl.load(tl.advance(x, (0, -1)), boundary_check=(0, 1), padding_option="zero")
    right = tl.load(tl.advance(x, (0, 1)), boundary_check=(0, 1), padding_option="zero")
    vertical = up.to(tl.float32) + down.to(tl.float32)
    around = vertical + left.to(tl.float32) + right.to(tl.float32)
    moved = here + 0.125 * (around - 4.0 * here)
    tl.store(out, moved.to(out_ptr.dtype.element_ty), boundary_check=(0, 1))


def valid(params, shape):
    """One to 32 points a thread, no tile far larger than the grid."""
    m, n = params["BLOCK_M"], params["BLOCK_N"]
    fits = m < 2 * shape["M"] and n < 2 * shape["N"]
    return fits and 1 <= m * n / (32 * params["num_warps"]) <= 32


def kernel(x, *, BLOCK_M=8, BLOCK_N=64, COLUMNS_FIRST=False, num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(N, BLOCK_N) * triton.cdiv(M, BLOCK_M),)
    block_kernel[grid](x, out, M, N, BLOCK_M, BLOCK_N, COLUMNS_FIRST, num_warps=num_warps)
    return out
