"""Residual and RMS normalisation with one row a program, in registers from read to write."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.add_rms_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROUND_SUM": [True, False],
    "STORE_EARLY": [True, False],
    "X_EVICT": ["", "evict_first"],
    "TOTAL_CACHE": ["", ".cs"],
    "OUT_CACHE": ["", ".cs"],
    "num_warps": [1, 2, 4, 8, 16, 32],
}


@triton.jit
def whole_row_kernel(
    x_ptr, residual_ptr, weight_ptr, out_ptr, total_ptr, N, eps, BLOCK: tl.constexpr,
    ROUND_SUM: tl.constexpr, STORE_EARLY: tl.constexpr, X_EVICT: tl.constexpr,
    TOTAL_CACHE: tl.constexpr, OUT_CACHE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * N
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(x_ptr + row + cols, mask=mask, other=0.0, eviction_policy=X_EVICT)
    residual = tl.load(residual_ptr + row + cols, mask=mask, other=0.0, eviction_policy=X_EVICT)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0, eviction_policy="evict_last")
    total = x.to(tl.float32) + residual.to(tl.float32)
    rounded = total.to(total_ptr.dtype.element_ty)
    if STORE_EARLY:
        tl.store(total_ptr + row + cols, rounded, mask=mask, cache_modifier=TOTAL_CACHE)
    if ROUND_SUM:  # what is normalised is what is stored
        total = rounded.to(tl.float32)
    scale = tl.rsqrt(tl.sum(total * total, axis=0) / N + eps)
    out = (total * scale * weight.to(tl.float32)).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + row + cols, out, mask=mask, cache_modifier=OUT_CACHE)
    if not STORE_EARLY:
        tl.store(total_ptr + row + cols, rounded, mask=mask, cache_modifier=TOTAL_CACHE)


def valid(params, shape):
    """One to 64 values a thread, of rows that registers hold."""
    block = triton.next_power_of_2(shape["N"])
    return block <= 8192 and 1 <= block / (32 * params["num_warps"]) <= 64


def kernel(
    x, residual, weight, *, ROUND_SUM=True, STORE_EARLY=True, X_EVICT="", TOTAL_CACHE="",
    OUT_CACHE="", num_warps=8,
):  # fmt: skip
    M, N = x.shape
    out, total = torch.empty_like(x), torch.empty_like(x)
    whole_row_kernel[(M,)](
        x, residual, weight, out, total, N, EPS, triton.next_power_of_2(N), ROUND_SUM,
        STORE_EARLY, X_EVICT, TOTAL_CACHE, OUT_CACHE, num_warps=num_warps,
    )  # fmt: skip
    return out, total
