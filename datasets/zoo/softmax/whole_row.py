"""Softmax with one row a program, held in registers from its one read to its one write."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "EXP2": [True, False],
    "RECIPROCAL": [True, False],
    "LOAD_EVICT": ["", "evict_first", "evict_last"],
    "STORE_CACHE": ["", ".cs", ".wt"],
    "num_warps": [1, 2, 4, 8, 16, 32],
}


@triton.jit
def whole_row_kernel(
    x_ptr, out_ptr, N, BLOCK: tl.constexpr, EXP2: tl.constexpr, RECIPROCAL: tl.constexpr,
    LOAD_EVICT: tl.constexpr, STORE_CACHE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * N
    cols = tl.arange(0, BLOCK)
    inside = cols < N
    x = tl.load(x_ptr + row + cols, mask=inside, other=float("-inf"), eviction_policy=LOAD_EVICT)
    x = x.to(tl.float32)
    if EXP2:  # the hardware's exponential is of base 2: fold the factor into one multiply-add
        LOG2E: tl.constexpr = 1.4426950408889634
        weights = tl.exp2(x * LOG2E - tl.max(x, axis=0) * LOG2E)
    else:
        weights = tl.exp(x - tl.max(x, axis=0))
    total = tl.sum(weights, axis=0)
    out = weights * (1.0 / total) if RECIPROCAL else weights / total
    out = out.to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + row + cols, out, mask=inside, cache_modifier=STORE_CACHE)


def valid(params, shape):
    """One to 64 values a thread; rows that registers hold."""
    block = triton.next_power_of_2(shape["N"])
    return block <= 8192 and 1 <= block / (32 * params["num_warps"]) <= 64


def kernel(x, *, EXP2=True, RECIPROCAL=True, LOAD_EVICT="", STORE_CACHE="", num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(N)
    whole_row_kernel[(M,)](
        x, out, N, block, EXP2, RECIPROCAL, LOAD_EVICT, STORE_CACHE, num_warps=num_warps
    )
    return out
