"""Whole rows are sorted by tl.sort, several in a program; one value of each is kept."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.quantile_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4],
    "WIDEN": [False, True],
    "num_warps": [4, 8, 16],
}


@triton.jit
def sort_kernel(
    x_ptr, out_ptr, M, N, k, ROWS: tl.constexpr, BLOCK: tl.constexpr, WIDEN: tl.constexpr
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)[None, :]
    inside = (rows[:, None] < M) & (cols < N)
    x = tl.load(x_ptr + rows[:, None] * N + cols, mask=inside, other=float("inf"))
    if WIDEN:
        x = x.to(tl.float32)
    x = tl.sort(x, dim=1)
    found = tl.sum(tl.where(cols == k - 1, x, 0.0).to(tl.float32), axis=1)
    tl.store(out_ptr + rows, found.to(out_ptr.dtype.element_ty), mask=rows < M)


def valid(params, shape):
    """At most 4,096 columns, and 1 to 16 elements a thread; only 16-bit floats are widened."""
    block = triton.next_power_of_2(shape["N"])
    widens = shape["dtype"] not in ("float32", torch.float32) or not params["WIDEN"]
    each = params["ROWS"] * block / (32 * params["num_warps"])
    return block <= 4096 and widens and 1 <= each <= 16


def kernel(x, k, *, ROWS=1, WIDEN=False, num_warps=8):
    M, N = x.shape
    out = torch.empty(M, dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(N)
    sort_kernel[(triton.cdiv(M, ROWS),)](x, out, M, N, k, ROWS, block, WIDEN, num_warps=num_warps)
    return out
