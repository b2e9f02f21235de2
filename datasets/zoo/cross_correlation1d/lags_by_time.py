"""Tiles of lags by time, loaded anew for every lag; parts are added atomically."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.cross_correlation1d.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "LAGS_EACH": [4, 8, 16, 32],
    "BLOCK": [64, 128, 256],
    "SPLIT": [1, 4, 16],
    "num_warps": [2, 4, 8],
}


@triton.jit
def correlate_kernel(
    x_ptr, y_ptr, out_ptr, T, LAGS, stretch, scale,
    LAGS_EACH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    pair = tl.program_id(2)
    lag = tl.program_id(0) * LAGS_EACH + tl.arange(0, LAGS_EACH)[:, None]
    first = tl.program_id(1) * stretch
    x_ptr += pair.to(tl.int64) * T
    y_ptr += pair.to(tl.int64) * (T + LAGS - 1)
    total = tl.zeros((LAGS_EACH, BLOCK), dtype=tl.float32)
    end = min(first + stretch, T)
    for start in range(first, end, BLOCK):
        t = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + t, mask=t < end, other=0.0).to(tl.float32)
        mask = (lag < LAGS) & (t[None, :] < end)
        y = tl.load(y_ptr + t[None, :] + lag, mask=mask, other=0.0).to(tl.float32)
        total += x[None, :] * y
    at = tl.program_id(0) * LAGS_EACH + tl.arange(0, LAGS_EACH)
    sums = tl.sum(total, axis=1) * scale
    tl.atomic_add(out_ptr + pair * LAGS + at, sums, mask=at < LAGS, sem="relaxed")


def valid(params, shape):
    """Two to 32 products a thread; no more lags than there are; parts are not short."""
    held = params["LAGS_EACH"] * params["BLOCK"] / (32 * params["num_warps"])
    parts = shape["T"] >= params["SPLIT"] * params["BLOCK"] or params["SPLIT"] == 4
    return 2 <= held <= 32 and params["LAGS_EACH"] <= shape["LAGS"] and parts


def kernel(x, y, *, LAGS_EACH=16, BLOCK=128, SPLIT=4, num_warps=4):
    B, T = x.shape
    lags = y.shape[1] - T + 1
    out = torch.zeros((B, lags), dtype=torch.float32, device=x.device)
    grid = (triton.cdiv(lags, LAGS_EACH), SPLIT, B)
    stretch = triton.cdiv(T, SPLIT)
    correlate_kernel[grid](
        x, y, out, T, lags, stretch, 1 / T, LAGS_EACH, BLOCK, num_warps=num_warps
    )
    return out
