"""Group normalisation of groups that registers hold, channels by pixels, read once."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.group_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "CENTRED": [True, False],
    "PIXELS_FIRST": [True, False],
    "LOAD_EVICT": ["", "evict_first"],
    "STORE_CACHE": ["", ".cs", ".wt"],
    "num_warps": [1, 2, 4, 8, 16, 32],
}


@triton.jit
def whole_group_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, HW, CHANNELS, GROUPS, eps, ROWS: tl.constexpr,
    COLS: tl.constexpr, CENTRED: tl.constexpr, PIXELS_FIRST: tl.constexpr,
    LOAD_EVICT: tl.constexpr, STORE_CACHE: tl.constexpr,
):  # fmt: skip
    c = tl.arange(0, ROWS)[:, None]
    p = tl.arange(0, COLS)[None, :]
    inside = (c < CHANNELS) & (p < HW)
    at = tl.program_id(0).to(tl.int64) * CHANNELS * HW + c * HW + p
    size = CHANNELS * HW
    x = tl.load(x_ptr + at, mask=inside, other=0.0, eviction_policy=LOAD_EVICT).to(tl.float32)
    # Along pixels and then channels, or the other way about.
    axis: tl.constexpr = 1 if PIXELS_FIRST else 0
    mean = tl.sum(tl.sum(x, axis=axis), axis=0) / size
    if CENTRED:
        far = tl.where(inside, x - mean, 0.0)
        variance = tl.sum(tl.sum(far * far, axis=axis), axis=0) / size
    else:
        variance = tl.sum(tl.sum(x * x, axis=axis), axis=0) / size - mean * mean
    channel = tl.program_id(0) % GROUPS * CHANNELS + c
    weight = tl.load(weight_ptr + channel, mask=c < CHANNELS, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + channel, mask=c < CHANNELS, other=0.0).to(tl.float32)
    scale = weight * tl.rsqrt(variance + eps)
    out = (x * scale + (bias - mean * scale)).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + at, out, mask=inside, cache_modifier=STORE_CACHE)


def valid(params, shape):
    """One to 64 values a thread, of groups that registers hold."""
    channels = shape["C"] // shape["G"]
    tile = triton.next_power_of_2(channels) * triton.next_power_of_2(shape["HW"])
    return tile <= 16384 and 1 <= tile / (32 * params["num_warps"]) <= 64


def kernel(
    x, weight, bias, groups, *, CENTRED=False, PIXELS_FIRST=True, LOAD_EVICT="", STORE_CACHE="",
    num_warps=8,
):  # fmt: skip
    B, C, HW = x.shape
    out = torch.empty_like(x)
    rows, cols = triton.next_power_of_2(C // groups), triton.next_power_of_2(HW)
    whole_group_kernel[(B * groups,)](
        x, weight, bias, out, HW, C // groups, groups, EPS, rows, cols, CENTRED, PIXELS_FIRST,
        LOAD_EVICT, STORE_CACHE, num_warps=num_warps,
    )  # fmt: skip
    return out
