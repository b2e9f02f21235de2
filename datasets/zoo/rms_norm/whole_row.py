"""RMS normalisation with one row a program, held in registers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.rms_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WEIGHT_FIRST": [True, False],
    "FOLD_SCALE": [True, False],
    "LOAD_EVICT": ["", "evict_first", "evict_last"],
    "WEIGHT_EVICT": ["", "evict_last"],
    "STORE_CACHE": ["", ".cs"],
    "num_warps": [1, 2, 4, 8, 16, 32],
}


@triton.jit
def whole_row_kernel(
    x_ptr, weight_ptr, out_ptr, N, eps, BLOCK: tl.constexpr, WEIGHT_FIRST: tl.constexpr,
    FOLD_SCALE: tl.constexpr, LOAD_EVICT: tl.constexpr, WEIGHT_EVICT: tl.constexpr,
    STORE_CACHE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * N  # 64 bits: M * N may exceed 2**31 elements
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    if WEIGHT_FIRST:
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0, eviction_policy=WEIGHT_EVICT)
    x = tl.load(x_ptr + row + cols, mask=mask, other=0.0, eviction_policy=LOAD_EVICT)
    x = x.to(tl.float32)
    mean_square = tl.sum(x * x, axis=0) / N
    if not WEIGHT_FIRST:
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0, eviction_policy=WEIGHT_EVICT)
    weight = weight.to(tl.float32)
    if FOLD_SCALE:
        out = x * tl.rsqrt(mean_square + eps) * weight
    else:
        out = x / tl.sqrt_rn(mean_square + eps) * weight
    out = out.to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + row + cols, out, mask=mask, cache_modifier=STORE_CACHE)


def valid(params, shape):
    """One to 64 values a thread, of rows that registers hold."""
    block = triton.next_power_of_2(shape["N"])
    return block <= 16384 and 1 <= block / (32 * params["num_warps"]) <= 64


def kernel(
    x, weight, *, WEIGHT_FIRST=True, FOLD_SCALE=True, LOAD_EVICT="", WEIGHT_EVICT="",
    STORE_CACHE="", num_warps=8,
):  # fmt: skip
    M, N = x.shape
    out = torch.empty_like(x)
    whole_row_kernel[(M,)](
        x, weight, out, N, EPS, triton.next_power_of_2(N), WEIGHT_FIRST, FOLD_SCALE,
        LOAD_EVICT, WEIGHT_EVICT, STORE_CACHE, num_warps=num_warps,
    )  # fmt: skip
    return out
