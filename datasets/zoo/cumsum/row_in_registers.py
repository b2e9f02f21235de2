"""Whole rows in registers: one load, one scan, one store."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.cumsum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "SCAN": ["cumsum", "associative"],
    "STREAMING": [False, True],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def row_kernel(
    x_ptr, out_ptr, M, N,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, SCAN: tl.constexpr, STREAMING: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    offsets = rows[:, None] * N + cols[None, :]
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    policy: tl.constexpr = "evict_first" if STREAMING else ""
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0, eviction_policy=policy).to(tl.float32)
    sums = tl.cumsum(x, axis=1) if SCAN == "cumsum" else tl.associative_scan(x, 1, plus)
    tl.store(
        out_ptr + offsets, sums.to(out_ptr.dtype.element_ty), mask=inside, eviction_policy=policy
    )


def valid(params, shape):
    """One to 128 elements a thread; no more rows than there are."""
    tile = params["ROWS"] * triton.next_power_of_2(shape["N"])
    return 1 <= tile / (32 * params["num_warps"]) <= 128 and params["ROWS"] <= shape["M"]


def kernel(x, *, ROWS=1, SCAN="cumsum", STREAMING=False, num_warps=16):
    M, N = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(N)
    grid = (triton.cdiv(M, ROWS),)
    row_kernel[grid](x, out, M, N, ROWS, block, SCAN, STREAMING, num_warps=num_warps)
    return out
