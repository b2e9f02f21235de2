"""A whole row as a small matrix: its rows are scanned, then their last products, then both meet."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.cumprod_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "DEPTH": [4, 8, 16, 32, 64],
    "STREAMING": [False, True],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def all_but_last(a_all, a_some, b_all, b_some):
    return a_all * b_all, a_all * b_some


@triton.jit
def folded_kernel(
    x_ptr, out_ptr, N, DEPTH: tl.constexpr, WIDE: tl.constexpr, STREAMING: tl.constexpr
):
    policy: tl.constexpr = "evict_first" if STREAMING else ""
    piece = tl.arange(0, WIDE)[:, None]
    step = tl.arange(0, DEPTH)[None, :]
    cols = piece * DEPTH + step
    at = tl.program_id(0) * N + cols
    x = tl.load(x_ptr + at, mask=cols < N, other=1.0, eviction_policy=policy).to(tl.float32)
    inner = tl.associative_scan(x, 1, multiply)
    whole = tl.sum(tl.where(step == DEPTH - 1, inner, 0.0), axis=1)
    _, before = tl.associative_scan((whole, tl.full((WIDE,), 1.0, tl.float32)), 0, all_but_last)
    before = tl.expand_dims(before, 1)
    tl.store(out_ptr + at, (inner * before).to(x_ptr.dtype.element_ty), mask=cols < N)


def valid(params, shape):
    """Half an element to 64 a thread; at least as many pieces as elements in one."""
    block = triton.next_power_of_2(shape["N"])
    each = block / (32 * params["num_warps"])
    return 0.5 <= each <= 64 and params["DEPTH"] ** 2 <= block


def kernel(x, *, DEPTH=4, STREAMING=False, num_warps=8):
    M, N = x.shape
    out = torch.empty_like(x)
    wide = triton.next_power_of_2(N) // DEPTH
    folded_kernel[(M,)](x, out, N, DEPTH, wide, STREAMING, num_warps=num_warps)
    return out
