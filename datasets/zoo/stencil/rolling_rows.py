"""A strip of columns a program, walked downwards: three rows in registers, each read once."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.stencil.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "HEIGHT": [8, 16, 32, 64, 128],
    "BLOCK": [64, 128, 256, 512, 1024],
    "UNROLL": [1, 2, 4],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def load_row(x_ptr, m, n, M, N):
    return tl.load(x_ptr + m * N + n, mask=(m >= 0) & (m < M) & (n < N), other=0.0).to(tl.float32)


@triton.jit
def rolling_kernel(
    x_ptr, out_ptr, M, N, HEIGHT: tl.constexpr, BLOCK: tl.constexpr, UNROLL: tl.constexpr
):
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    top = tl.program_id(1) * HEIGHT
    above = load_row(x_ptr, top - 1, n, M, N)
    here = load_row(x_ptr, top, n, M, N)
    for m in tl.range(top, min(top + HEIGHT, M), loop_unroll_factor=UNROLL):
        below = load_row(x_ptr, m + 1, n, M, N)
        row = x_ptr + m * N + n  # the sides come from the cache that the row itself has filled
        sides = tl.load(row - 1, mask=(n > 0) & (n < N), other=0.0).to(tl.float32)
        sides += tl.load(row + 1, mask=n < N - 1, other=0.0).to(tl.float32)
        out = 0.5 * here + 0.125 * (above + below + sides)
        tl.store(out_ptr + m * N + n, out.to(out_ptr.dtype.element_ty), mask=n < N)
        above, here = here, below


def valid(params, shape):
    """One to 16 points a thread; the strip is not far larger than the grid."""
    fits = params["HEIGHT"] < 2 * shape["M"] and params["BLOCK"] < 2 * shape["N"]
    return fits and 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 16


def kernel(x, *, HEIGHT=32, BLOCK=128, UNROLL=1, num_warps=2):
    M, N = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(N, BLOCK), triton.cdiv(M, HEIGHT))
    rolling_kernel[grid](x, out, M, N, HEIGHT, BLOCK, UNROLL, num_warps=num_warps)
    return out
