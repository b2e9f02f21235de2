"""Taps as an axis of the tile: one load of T x TAPS x C overlapping values, one sum."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.conv1d_depthwise.problem import SHAPES, TAPS, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_T": [1, 2, 4, 8, 16],
    "BLOCK_C": [16, 32, 64, 128, 256],
    "TAPS_LAST": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def overlapping_kernel(
    x_ptr, weight_ptr, out_ptr, T, C,
    TAPS: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr, TAPS_LAST: tl.constexpr,
):  # fmt: skip
    t0, c0 = tl.program_id(1) * BLOCK_T, tl.program_id(0) * BLOCK_C
    x_ptr += tl.program_id(2) * T * C
    out_ptr += tl.program_id(2) * T * C
    if TAPS_LAST:
        t = t0 + tl.arange(0, BLOCK_T)[:, None, None]
        c = c0 + tl.arange(0, BLOCK_C)[None, :, None]
        tap = tl.arange(0, TAPS)[None, None, :]
    else:
        t = t0 + tl.arange(0, BLOCK_T)[:, None, None]
        tap = tl.arange(0, TAPS)[None, :, None]
        c = c0 + tl.arange(0, BLOCK_C)[None, None, :]
    at = t + tap - (TAPS - 1)
    x = tl.load(x_ptr + at * C + c, mask=(at >= 0) & (at < T) & (c < C), other=0.0)
    weight = tl.load(weight_ptr + c * TAPS + tap, mask=c < C, other=0.0)
    acc = tl.sum(x.to(tl.float32) * weight.to(tl.float32), axis=2 if TAPS_LAST else 1)
    acc *= tl.sigmoid(acc)
    rows = t0 + tl.arange(0, BLOCK_T)[:, None]
    cols = c0 + tl.arange(0, BLOCK_C)[None, :]
    inside = (rows < T) & (cols < C)
    tl.store(out_ptr + rows * C + cols, acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 64 products a thread, no tile far larger than what there is."""
    t, c = params["BLOCK_T"], params["BLOCK_C"]
    fits = t < 2 * shape["T"] and c < 2 * shape["C"]
    return fits and 1 <= t * c * TAPS / (32 * params["num_warps"]) <= 64


def kernel(x, weight, *, BLOCK_T=8, BLOCK_C=64, TAPS_LAST=False, num_warps=4):
    B, T, C = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(C, BLOCK_C), triton.cdiv(T, BLOCK_T), B)
    overlapping_kernel[grid](
        x, weight, out, T, C, TAPS, BLOCK_T, BLOCK_C, TAPS_LAST, num_warps=num_warps
    )
    return out
