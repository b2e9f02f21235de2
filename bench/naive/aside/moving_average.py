"""Trailing mean of a window over each series; a program takes 128 places of one series."""

import torch
import triton
import triton.language as tl

SHAPES = [{"S": 2048, "L": 8192}]
HELD_OUT_SHAPES = [{"S": 65, "L": 3001}]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-3}


def reference(series):
    x = torch.nn.functional.pad(series.double(), (7, 0))
    return (x.unfold(-1, 8, 1).mean(-1)).to(series.dtype)


def inputs(S=2048, L=8192, dtype=torch.float32, device="cuda"):
    return (torch.randn(S, L, dtype=dtype, device=device),)


@triton.jit
def moving_mean(series, result, L, WINDOW: tl.constexpr, BL: tl.constexpr):
    s = tl.program_id(1)
    at = tl.program_id(0) * BL + tl.arange(0, BL)
    acc = tl.zeros((BL,), dtype=tl.float32)
    for j in range(WINDOW):
        pos = at - j
        acc += tl.load(series + s * L + pos, mask=(pos >= 0) & (pos < L), other=0.0)
    tl.store(result + s * L + at, acc / WINDOW, mask=at < L)


def kernel(series):
    S, L = series.shape
    result = torch.empty_like(series)
    moving_mean[(triton.cdiv(L, 128), S)](series, result, L, WINDOW=8, BL=128)
    return result
