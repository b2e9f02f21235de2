"""Log-softmax with one row a program, held in registers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.log_softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "EXP2": [True, False],
    "SHIFT_ONCE": [True, False],
    "LOAD_CACHE": ["", ".cg", ".ca"],
    "STORE_EVICT": ["", "evict_first", "evict_last"],
    "num_warps": [1, 2, 4, 8, 16, 32],
}


@triton.jit
def whole_row_kernel(
    x_ptr, y_ptr, N, BLOCK: tl.constexpr, EXP2: tl.constexpr, SHIFT_ONCE: tl.constexpr,
    LOAD_CACHE: tl.constexpr, STORE_EVICT: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64)
    n = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + pid * N + n, mask=n < N, other=float("-inf"), cache_modifier=LOAD_CACHE)
    x = x.to(tl.float32)
    peak = tl.max(x, axis=0)
    shifted = x - peak
    if EXP2:
        total = tl.sum(tl.exp2(shifted * 1.4426950408889634), axis=0)
    else:
        total = tl.sum(tl.exp(shifted), axis=0)
    # One subtraction of the log-sum-exp, or a second from what was shifted for the exponential.
    y = x - (peak + tl.log(total)) if SHIFT_ONCE else shifted - tl.log(total)
    y = y.to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + pid * N + n, y, mask=n < N, eviction_policy=STORE_EVICT)


def valid(params, shape):
    """One to 64 values a thread, of rows that registers hold."""
    block = triton.next_power_of_2(shape["N"])
    return block <= 8192 and 1 <= block / (32 * params["num_warps"]) <= 64


def kernel(x, *, EXP2=True, SHIFT_ONCE=True, LOAD_CACHE="", STORE_EVICT="", num_warps=4):
    M, N = x.shape
    y = torch.empty_like(x)
    block = triton.next_power_of_2(N)
    whole_row_kernel[(M,)](
        x, y, N, block, EXP2, SHIFT_ONCE, LOAD_CACHE, STORE_EVICT, num_warps=num_warps
    )
    return y
