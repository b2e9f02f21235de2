"""Layer normalisation with one row a program, held in registers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.layer_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "CENTRED": [True, False],
    "WEIGHTS_FIRST": [True, False],
    "LOAD_EVICT": ["", "evict_first"],
    "WEIGHT_EVICT": ["", "evict_last"],
    "STORE_CACHE": ["", ".cs"],
    "num_warps": [1, 2, 4, 8, 16, 32],
}


@triton.jit
def whole_row_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, N, eps, BLOCK: tl.constexpr, CENTRED: tl.constexpr,
    WEIGHTS_FIRST: tl.constexpr, LOAD_EVICT: tl.constexpr, WEIGHT_EVICT: tl.constexpr,
    STORE_CACHE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * N
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(x_ptr + row + cols, mask=mask, other=0.0, eviction_policy=LOAD_EVICT)
    x = x.to(tl.float32)
    if WEIGHTS_FIRST:  # under way while the row is summed, at the price of registers
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0, eviction_policy=WEIGHT_EVICT)
        bias = tl.load(bias_ptr + cols, mask=mask, other=0.0, eviction_policy=WEIGHT_EVICT)
    mean = tl.sum(x, axis=0) / N
    if CENTRED:
        centred = tl.where(mask, x - mean, 0.0)
        variance = tl.sum(centred * centred, axis=0) / N
    else:  # both sums at once: cheaper, and it cancels where the mean is large
        centred = x - mean
        variance = tl.sum(x * x, axis=0) / N - mean * mean
    if not WEIGHTS_FIRST:
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0, eviction_policy=WEIGHT_EVICT)
        bias = tl.load(bias_ptr + cols, mask=mask, other=0.0, eviction_policy=WEIGHT_EVICT)
    out = centred * tl.rsqrt(variance + eps) * weight.to(tl.float32) + bias.to(tl.float32)
    out = out.to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + row + cols, out, mask=mask, cache_modifier=STORE_CACHE)


def valid(params, shape):
    """One to 64 values a thread, of rows that registers hold."""
    block = triton.next_power_of_2(shape["N"])
    return block <= 16384 and 1 <= block / (32 * params["num_warps"]) <= 64


def kernel(
    x, weight, bias, *, CENTRED=True, WEIGHTS_FIRST=True, LOAD_EVICT="", WEIGHT_EVICT="",
    STORE_CACHE="", num_warps=8,
):  # fmt: skip
    M, N = x.shape
    out = torch.empty_like(x)
    whole_row_kernel[(M,)](
        x, weight, bias, out, N, EPS, triton.next_power_of_2(N), CENTRED, WEIGHTS_FIRST,
        LOAD_EVICT, WEIGHT_EVICT, STORE_CACHE, num_warps=num_warps,
    )  # fmt: skip
    return out
