"""Causal softmax with one row a program; what is hidden is neither read nor written twice."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.masked_softmax.problem import SCALE, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SKIP_HIDDEN": [True, False],
    "EXP2": [True, False],
    "LAST_FIRST": [False, True],
    "LOAD_EVICT": ["", "evict_first"],
    "STORE_CACHE": ["", ".cs"],
    "num_warps": [1, 2, 4, 8, 16, 32],
}


@triton.jit
def whole_row_kernel(
    x_ptr, y_ptr, Q, K, scale, BLOCK: tl.constexpr, SKIP_HIDDEN: tl.constexpr,
    EXP2: tl.constexpr, LAST_FIRST: tl.constexpr, LOAD_EVICT: tl.constexpr,
    STORE_CACHE: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    if LAST_FIRST:  # long rows before short ones leave a shorter tail
        pid = tl.num_programs(0) - 1 - pid
    at = pid.to(tl.int64) * K + tl.arange(0, BLOCK)
    cols = tl.arange(0, BLOCK)
    seen = cols <= pid % Q + K - Q
    wanted = seen if SKIP_HIDDEN else cols < K
    x = tl.load(x_ptr + at, mask=wanted, other=0.0, eviction_policy=LOAD_EVICT).to(tl.float32)
    x = tl.where(seen, x * scale, float("-inf"))
    x -= tl.max(x, axis=0)
    weights = tl.exp2(x * 1.4426950408889634) if EXP2 else tl.exp(x)
    y = weights / tl.sum(weights, axis=0)
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=cols < K, cache_modifier=STORE_CACHE)


def valid(params, shape):
    """One to 64 values a thread."""
    return 1 <= triton.next_power_of_2(shape["K"]) / (32 * params["num_warps"]) <= 64


def kernel(
    scores, *, SKIP_HIDDEN=True, EXP2=True, LAST_FIRST=False, LOAD_EVICT="", STORE_CACHE="",
    num_warps=4,
):  # fmt: skip
    B, Q, K = scores.shape
    y = torch.empty_like(scores)
    whole_row_kernel[(B * Q,)](
        scores, y, Q, K, SCALE, triton.next_power_of_2(K), SKIP_HIDDEN, EXP2, LAST_FIRST,
        LOAD_EVICT, STORE_CACHE, num_warps=num_warps,
    )  # fmt: skip
    return y
