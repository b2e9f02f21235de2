"""Rows in registers: K times the largest is found with its place, written and struck out."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.top_k.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "STRIKE": ["value", "place"],
    "TOGETHER": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def striking_kernel(
    x_ptr, values_ptr, places_ptr, M, N, K,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, STRIKE: tl.constexpr, TOGETHER: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)[None, :]
    inside = (rows[:, None] < M) & (cols < N)
    x = tl.load(x_ptr + rows[:, None] * N + cols, mask=inside, other=float("-inf"))
    x = x.to(tl.float32)
    for rank in range(K):
        if TOGETHER:
            best, place = tl.max(x, axis=1, return_indices=True)
        else:
            best = tl.max(x, axis=1)
            place = tl.min(tl.where(x == best[:, None], cols, BLOCK), axis=1)
        at = rows * K + rank
        tl.store(values_ptr + at, best.to(values_ptr.dtype.element_ty), mask=rows < M)
        tl.store(places_ptr + at, place, mask=rows < M)
        struck = x == best[:, None] if STRIKE == "value" else cols == place[:, None]
        x = tl.where(struck, float("-inf"), x)


def valid(params, shape):
    """One to 64 elements a thread."""
    tile = params["ROWS"] * triton.next_power_of_2(shape["N"])
    return params["ROWS"] <= shape["M"] and 1 <= tile / (32 * params["num_warps"]) <= 64


def kernel(x, k, *, ROWS=1, STRIKE="place", TOGETHER=True, num_warps=2):
    M, N = x.shape
    values = torch.empty((M, k), dtype=x.dtype, device=x.device)
    places = torch.empty((M, k), dtype=torch.int32, device=x.device)
    block = triton.next_power_of_2(N)
    striking_kernel[(triton.cdiv(M, ROWS),)](
        x, values, places, M, N, k, ROWS, block, STRIKE, TOGETHER, num_warps=num_warps
    )
    return values, places
