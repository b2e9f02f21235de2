"""torch.cumsum in float64, then a kernel takes differences of sums a window apart."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.moving_average.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [256, 512, 1024, 2048, 4096],
    "ROWS_FIRST": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def difference_kernel(sums_ptr, out_ptr, N, window, BLOCK: tl.constexpr, ROWS_FIRST: tl.constexpr):
    row, tile = tl.program_id(1), tl.program_id(0)
    if ROWS_FIRST:
        row, tile = tl.program_id(0), tl.program_id(1)
    sums_ptr += row.to(tl.int64) * N
    out_ptr += row.to(tl.int64) * (N - window + 1)
    at = tile * BLOCK + tl.arange(0, BLOCK)
    inside = at <= N - window
    upto = tl.load(sums_ptr + at + window - 1, mask=inside, other=0.0)
    before = tl.load(sums_ptr + at - 1, mask=inside & (at > 0), other=0.0)
    mean = ((upto - before) / window).to(tl.float32)
    tl.store(out_ptr + at, mean.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Two to 32 elements a thread, no tile far longer than a row; a grid has few tiles in y."""
    block = params["BLOCK"]
    few = shape["N"] / block < 65536 or not params["ROWS_FIRST"]
    return few and block < 2 * shape["N"] and 2 <= block / (32 * params["num_warps"]) <= 32


def kernel(x, window, *, BLOCK=1024, ROWS_FIRST=False, num_warps=4):
    M, N = x.shape
    sums = x.cumsum(1, dtype=torch.float64)
    out = torch.empty((M, N - window + 1), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(N - window + 1, BLOCK), M)
    grid = grid[::-1] if ROWS_FIRST else grid
    difference_kernel[grid](sums, out, N, window, BLOCK, ROWS_FIRST, num_warps=num_warps)
    return out
