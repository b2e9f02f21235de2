"""Whole rows in registers, sorted by the bitonic network of tl.sort, up or down."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.sort_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32, 64],
    "FALLING": [False, True],
    "WIDEN": [False, True],
    "STREAMING": [False, True],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def network_kernel(
    x_ptr, out_ptr, M, N,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, FALLING: tl.constexpr, WIDEN: tl.constexpr,
    STREAMING: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, BLOCK)[None, :]
    policy: tl.constexpr = "evict_first" if STREAMING else ""
    beyond = float("-inf") if FALLING else float("inf")
    inside = (rows < M) & (cols < N)
    x = tl.load(x_ptr + rows * N + cols, mask=inside, other=beyond, eviction_policy=policy)
    if WIDEN:
        x = x.to(tl.float32)
    x = tl.sort(x, dim=1, descending=FALLING)
    place = N - 1 - cols if FALLING else cols
    tl.store(out_ptr + rows * N + place, x.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """An eighth to 8 elements a thread; only 16-bit floats can be widened."""
    tile = params["ROWS"] * triton.next_power_of_2(shape["N"])
    widens = shape["dtype"] not in ("float32", torch.float32) or not params["WIDEN"]
    fits = params["ROWS"] <= shape["M"] and widens
    return fits and 0.125 <= tile / (32 * params["num_warps"]) <= 8


def kernel(x, *, ROWS=1, FALLING=False, WIDEN=False, STREAMING=False, num_warps=8):
    M, N = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(N)
    network_kernel[(triton.cdiv(M, ROWS),)](
        x, out, M, N, ROWS, block, FALLING, WIDEN, STREAMING, num_warps=num_warps
    )
    return out
