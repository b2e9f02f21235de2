"""Two launches of the same kernel: tap by tap, a shifted tile is loaded and weighted."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gaussian_blur.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 4, 16],
    "COLS": [64, 128, 256],
    "UNROLLED": [False, True],
    "num_warps": [2, 4, 8],
}


@triton.jit
def pass_kernel(
    x_ptr, taps_ptr, out_ptr, total, H, W, DOWN: tl.constexpr, TAPS: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, UNROLLED: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)[None, :]
    at = row * W + col
    inside = (row < total) & (col < W)
    place = row % H if DOWN else col
    size = H if DOWN else W
    step = W if DOWN else 1
    out = tl.zeros((ROWS, COLS), dtype=tl.float32)
    if UNROLLED:
        for k in tl.static_range(TAPS):
            shift = k - TAPS // 2
            mask = inside & (place + shift >= 0) & (place + shift < size)
            x = tl.load(x_ptr + at + shift * step, mask=mask, other=0.0)
            out += tl.load(taps_ptr + k) * x.to(tl.float32)
    else:
        for k in range(TAPS):
            there = place + k - TAPS // 2
            mask = inside & (there >= 0) & (there < size)
            x = tl.load(x_ptr + at + (k - TAPS // 2) * step, mask=mask, other=0.0)
            out += tl.load(taps_ptr + k) * x.to(tl.float32)
    tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Two to 32 points a thread; no tile far wider than a row."""
    held = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    return 2 <= held <= 32 and params["COLS"] < 2 * shape["W"]


def kernel(x, taps, *, ROWS=4, COLS=128, UNROLLED=True, num_warps=4):
    B, H, W = x.shape
    between = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    out = torch.empty_like(x)
    grid = (triton.cdiv(B * H, ROWS), triton.cdiv(W, COLS))
    tiles = (taps.shape[0], ROWS, COLS, UNROLLED)
    pass_kernel[grid](x, taps, between, B * H, H, W, False, *tiles, num_warps=num_warps)
    pass_kernel[grid](between, taps, out, B * H, H, W, True, *tiles, num_warps=num_warps)
    return out
