"""A tile of matrices in registers; columns are picked out by sums under a mask."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.batched_cholesky.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "MATRICES": [1, 2, 4, 8, 16],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def cholesky_kernel(a_ptr, out_ptr, count, N, MATRICES: tl.constexpr, SIDE: tl.constexpr):
    matrix = tl.program_id(0) * MATRICES + tl.arange(0, MATRICES)[:, None, None]
    row = tl.arange(0, SIDE)[None, :, None]
    col = tl.arange(0, SIDE)[None, None, :]
    inside = (matrix < count) & (row < N) & (col < N)
    at = matrix.to(tl.int64) * N * N + row * N + col
    a = tl.load(a_ptr + at, mask=inside, other=0.0).to(tl.float32)
    a = tl.where(inside, a, (row == col).to(tl.float32))
    factor = tl.zeros((MATRICES, SIDE, SIDE), dtype=tl.float32)
    i = tl.arange(0, SIDE)[None, :]
    for j in range(N):
        column = tl.sum(tl.where(col == j, a, 0.0), axis=2)
        diagonal = tl.sum(tl.where(i == j, column, 0.0), axis=1)
        column = tl.where(i >= j, column * tl.rsqrt(diagonal)[:, None], 0.0)
        factor = tl.where(col == j, column[:, :, None], factor)
        a -= column[:, :, None] * column[:, None, :]
    tl.store(out_ptr + at, factor.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Two to 32 elements a thread."""
    side = triton.next_power_of_2(shape["N"])
    return 2 <= params["MATRICES"] * side * side / (32 * params["num_warps"]) <= 32


def kernel(a, *, MATRICES=4, num_warps=4):
    count, N = a.shape[:2]
    out = torch.empty_like(a)
    side = triton.next_power_of_2(N)
    grid = (triton.cdiv(count, MATRICES),)
    cholesky_kernel[grid](a, out, count, N, MATRICES, side, num_warps=num_warps)
    return out
