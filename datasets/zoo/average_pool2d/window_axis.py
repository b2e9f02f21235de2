"""The window as an axis of the tile, padded to a power of two and reduced by one tl.sum."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.average_pool2d.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PIXELS": [1, 2, 4, 8, 16, 32],
    "BLOCK_C": [1, 4, 16, 32, 64, 128, 256],
    "WINDOW_FIRST": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def axis_kernel(
    x_ptr, out_ptr, H, W, C, P, Q, pixels,
    R: tl.constexpr, TAPS: tl.constexpr, PIXELS: tl.constexpr, BLOCK_C: tl.constexpr,
    WINDOW_FIRST: tl.constexpr,
):  # fmt: skip
    if WINDOW_FIRST:
        tap = tl.arange(0, TAPS)[:, None, None]
        m = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)[None, :, None]
    else:
        m = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)[:, None, None]
        tap = tl.arange(0, TAPS)[None, :, None]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, None, :]
    y, z = m // Q % P * R + tap // R, m % Q * R + tap % R
    source = ((m // (P * Q) * H + y) * W + z) * C + c
    x = tl.load(x_ptr + source, mask=(m < pixels) & (tap < R * R) & (c < C), other=0.0)
    mean = tl.sum(x.to(tl.float32), axis=0 if WINDOW_FIRST else 1) / (R * R)
    rows = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)[:, None]
    cols = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    mask = (rows < pixels) & (cols < C)
    tl.store(out_ptr + rows * C + cols, mean.to(out_ptr.dtype.element_ty), mask=mask)


def valid(params, shape):
    """One to 64 inputs a thread; blocks not far wider than the channels."""
    taps = triton.next_power_of_2(shape["R"] ** 2)
    each = params["PIXELS"] * params["BLOCK_C"] * taps / (32 * params["num_warps"])
    return params["BLOCK_C"] < 2 * shape["C"] and 1 <= each <= 64


def kernel(x, window, *, PIXELS=16, BLOCK_C=4, WINDOW_FIRST=False, num_warps=2):
    B, H, W, C = x.shape
    P, Q = H // window, W // window
    out = torch.empty((B, P, Q, C), dtype=x.dtype, device=x.device)
    pixels = B * P * Q
    taps = triton.next_power_of_2(window * window)
    grid = (triton.cdiv(pixels, PIXELS), triton.cdiv(C, BLOCK_C))
    axis_kernel[grid](
        x, out, H, W, C, P, Q, pixels, window, taps, PIXELS, BLOCK_C, WINDOW_FIRST,
        num_warps=num_warps,
    )  # fmt: skip
    return out
