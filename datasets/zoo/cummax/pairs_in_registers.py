"""Whole rows in registers, one scan over pairs of value and place."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.cummax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "STREAMING": [False, True],
    "WIDEN": [True, False],
    "REVERSED": [False, True],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def later_maximum(value, place, other, other_place):
    newer = other >= value
    return tl.where(newer, other, value), tl.where(newer, other_place, place)


@triton.jit
def pair_kernel(
    x_ptr, values_ptr, places_ptr, M, N,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, STREAMING: tl.constexpr, WIDEN: tl.constexpr,
    REVERSED: tl.constexpr,
):  # fmt: skip
    block = tl.num_programs(0) - 1 - tl.program_id(0) if REVERSED else tl.program_id(0)
    rows = block * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, BLOCK)[None, :]
    inside = (rows < M) & (cols < N)
    at = rows * N + cols
    policy: tl.constexpr = "evict_first" if STREAMING else ""
    x = tl.load(x_ptr + at, mask=inside, other=float("-inf"), eviction_policy=policy)
    if WIDEN:
        x = x.to(tl.float32)
    places = tl.broadcast_to(cols, (ROWS, BLOCK))
    values, places = tl.associative_scan((x, places), 1, later_maximum)
    tl.store(values_ptr + at, values.to(values_ptr.dtype.element_ty), mask=inside)
    tl.store(places_ptr + at, places, mask=inside, eviction_policy=policy)


def valid(params, shape):
    """One to 64 pairs a thread of rows up to 8192; only 16-bit floats can be widened."""
    block = triton.next_power_of_2(shape["N"])
    single = shape["dtype"] in ("float32", torch.float32)
    fits = params["ROWS"] <= shape["M"] and (params["WIDEN"] or not single)
    return fits and block <= 8192 and 1 <= params["ROWS"] * block / (32 * params["num_warps"]) <= 64


def kernel(x, *, ROWS=1, STREAMING=False, WIDEN=True, REVERSED=False, num_warps=4):
    M, N = x.shape
    values = torch.empty_like(x)
    places = torch.empty((M, N), dtype=torch.int32, device=x.device)
    block = triton.next_power_of_2(N)
    pair_kernel[(triton.cdiv(M, ROWS),)](
        x, values, places, M, N, ROWS, block, STREAMING, WIDEN, REVERSED, num_warps=num_warps
    )
    return values, places
