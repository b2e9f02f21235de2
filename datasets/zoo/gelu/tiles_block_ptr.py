"""Two-dimensional tiles through block pointers, walked along rows or along columns."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gelu.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [1, 2, 4, 8, 16, 32],
    "BLOCK_N": [64, 128, 256, 512, 1024],
    "ROWS_FIRST": [True, False],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def gelu_tile_kernel(
    x_ptr, out_ptr, M, N,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, ROWS_FIRST: tl.constexpr,
):  # fmt: skip
    if ROWS_FIRST:
        m, n = tl.program_id(1), tl.program_id(0)
    else:
        m, n = tl.program_id(0), tl.program_id(1)
    corner = (m * BLOCK_M, n * BLOCK_N)
    source = tl.make_block_ptr(x_ptr, (M, N), (N, 1), corner, (BLOCK_M, BLOCK_N), (1, 0))
    target = tl.make_block_ptr(out_ptr, (M, N), (N, 1), corner, (BLOCK_M, BLOCK_N), (1, 0))
    x = tl.load(source, boundary_check=(0, 1), padding_option="zero").to(tl.float32)
    half = x * 0.5
    y = half + half * tl.erf(x * 0.7071067811865476)
    tl.store(target, y.to(out_ptr.dtype.element_ty), boundary_check=(0, 1))


def valid(params, shape):
    """One to 64 elements a thread, no tile far wider than a row, few enough tiles in y."""
    held = params["BLOCK_M"] * params["BLOCK_N"] / (32 * params["num_warps"])
    length = shape["N"] if params["ROWS_FIRST"] is False else shape["M"]
    side = params["BLOCK_N"] if params["ROWS_FIRST"] is False else params["BLOCK_M"]
    return 1 <= held <= 64 and params["BLOCK_N"] < 2 * shape["N"] and length / side <= 65535


def kernel(x, *, BLOCK_M=4, BLOCK_N=256, ROWS_FIRST=True, num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    m, n = triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N)
    grid = (n, m) if ROWS_FIRST else (m, n)
    gelu_tile_kernel[grid](x, out, M, N, BLOCK_M, BLOCK_N, ROWS_FIRST, num_warps=num_warps)
    return out
