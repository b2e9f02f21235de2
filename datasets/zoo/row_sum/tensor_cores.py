"""A product with a matrix of ones: the tensor cores add up rows of half-precision values."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.row_sum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [16, 32, 64, 128],
    "BLOCK": [32, 64, 128, 256, 512],
    "ONES": [8, 16],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def row_sum_dot_kernel(
    x_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr, ONES: tl.constexpr
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    ones = tl.full((BLOCK, ONES), 1.0, dtype=x_ptr.dtype.element_ty)
    total = tl.zeros((ROWS, ONES), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=inside, other=0.0)
        total = tl.dot(x, ones, total)
    # all columns of the product are the same: the mean over them is exact
    tl.store(out_ptr + rows, tl.sum(total, axis=1) / ONES, mask=rows < M)


def valid(params, shape):
    """Half precision, 8 rows a warp, tiles that fit, 4 to 128 values a thread, 2500 steps."""
    tile = params["ROWS"] * params["BLOCK"]
    shared = params["num_stages"] * tile * 2 + params["BLOCK"] * params["ONES"] * 2
    fits = shared <= 200 * 1024 and 4 <= tile / (32 * params["num_warps"]) <= 128
    few = params["ROWS"] >= 8 * params["num_warps"] and shape["N"] / params["BLOCK"] <= 2500
    return shape["dtype"] != "float32" and fits and few


def kernel(x, *, ROWS=32, BLOCK=512, ONES=16, num_warps=4, num_stages=3):
    M, N = x.shape
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    row_sum_dot_kernel[(triton.cdiv(M, ROWS),)](
        x, out, M, N, ROWS, BLOCK, ONES, num_warps=num_warps, num_stages=num_stages
    )
    return out
