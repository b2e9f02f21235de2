"""Scans on the tensor cores: each tile of a few rows is multiplied by a triangle of ones.

float32 inputs take three TF32 products, so that the sums keep their precision.
"""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.cumsum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [16, 32, 64, 128],
    "BLOCK": [16, 32, 64, 128],
    "CARRY": ["column", "matmul"],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def triangle_kernel(
    x_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr, CARRY: tl.constexpr
):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    k = tl.arange(0, BLOCK)
    upper = (k[:, None] <= k[None, :]).to(x_ptr.dtype.element_ty)
    ones = tl.full((BLOCK, BLOCK), 1.0, x_ptr.dtype.element_ty)
    before = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        inside = (rows[:, None] < M) & (start + k[None, :] < N)
        offsets = rows[:, None] * N + start + k[None, :]
        x = tl.load(x_ptr + offsets, mask=inside, other=0.0)
        sums = tl.dot(x, upper, before, input_precision="tf32x3")
        tl.store(out_ptr + offsets, sums.to(out_ptr.dtype.element_ty), mask=inside)
        if CARRY == "column":  # the last column, shared out by a reduction
            last = tl.sum(tl.where(k[None, :] == BLOCK - 1, sums, 0.0), axis=1)
            before = tl.broadcast_to(last[:, None], (ROWS, BLOCK))
        else:  # a product with ones has the total in every column
            before = tl.dot(x, ones, before, input_precision="tf32x3")


def valid(params, shape):
    """Tiles that fit; at most 128 sums a thread (32 in float32) and 2048 steps."""
    rows, block = params["ROWS"], params["BLOCK"]
    single = shape["dtype"] in ("float32", torch.float32)
    shared = (params["num_stages"] * rows + block) * block * (12 if single else 2)
    fits = shape["N"] <= 2048 * block and shared <= 227 * 1024 and rows < 2 * max(shape["M"], 16)
    each = rows * block / (32 * params["num_warps"])
    return fits and 4 <= each <= (32 if single else 128)


def kernel(x, *, ROWS=16, BLOCK=64, CARRY="column", num_warps=2, num_stages=2):
    M, N = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(M, ROWS),)
    triangle_kernel[grid](
        x, out, M, N, ROWS, BLOCK, CARRY, num_warps=num_warps, num_stages=num_stages
    )
    return out
