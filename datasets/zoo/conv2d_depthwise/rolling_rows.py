"""A strip of pixels walked down the image: what three rows contribute is summed as they pass.

Each input row is read once a strip (three times for its shifts) and feeds three outputs: two
partial sums stay in registers from step to step.
"""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.conv2d_depthwise.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "STRIP": [1, 2, 4, 8, 16],
    "BLOCK_C": [16, 32, 64, 128, 256],
    "HEIGHT": [7, 14, 28],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def row_of_taps(weight_ptr, i, c, C):
    taps = weight_ptr + i * 3 * C + c
    left = tl.load(taps, mask=c < C, other=0.0).to(tl.float32)
    mid = tl.load(taps + C, mask=c < C, other=0.0).to(tl.float32)
    right = tl.load(taps + 2 * C, mask=c < C, other=0.0).to(tl.float32)
    return left, mid, right


@triton.jit
def rolling_kernel(
    x_ptr, weight_ptr, out_ptr, H, W, C,
    STRIP: tl.constexpr, BLOCK_C: tl.constexpr, HEIGHT: tl.constexpr,
):  # fmt: skip
    strips = tl.cdiv(W, STRIP)
    image, top = tl.program_id(2), tl.program_id(1) * HEIGHT
    col = tl.program_id(0) % strips * STRIP + tl.arange(0, STRIP)[:, None]
    c = tl.program_id(0) // strips * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    a0, a1, a2 = row_of_taps(weight_ptr, 0, c, C)
    b0, b1, b2 = row_of_taps(weight_ptr, 1, c, C)
    c0, c1, c2 = row_of_taps(weight_ptr, 2, c, C)
    upper = tl.zeros((STRIP, BLOCK_C), dtype=tl.float32)  # of the output row above this input row
    lower = tl.zeros((STRIP, BLOCK_C), dtype=tl.float32)
    for row in range(top - 1, min(top + HEIGHT, H) + 1):
        there = (row >= 0) & (row < H) & (col < W) & (c < C)
        at = ((image * H + row) * W + col) * C + c
        left = tl.load(x_ptr + at - C, mask=there & (col > 0), other=0.0).to(tl.float32)
        mid = tl.load(x_ptr + at, mask=there, other=0.0).to(tl.float32)
        right = tl.load(x_ptr + at + C, mask=there & (col < W - 1), other=0.0).to(tl.float32)
        done = upper + left * c0 + mid * c1 + right * c2
        upper = lower + left * b0 + mid * b1 + right * b2
        lower = left * a0 + mid * a1 + right * a2
        store = (row - 1 >= top) & (col < W) & (c < C)
        tl.store(out_ptr + at - W * C, done.to(out_ptr.dtype.element_ty), mask=store)


def valid(params, shape):
    """One to 16 outputs a step and thread; strips not far larger than the image."""
    strip, c = params["STRIP"], params["BLOCK_C"]
    fits = c < 2 * shape["C"] and strip < 2 * shape["W"] and params["HEIGHT"] < 2 * shape["H"]
    return fits and 1 <= strip * c / (32 * params["num_warps"]) <= 16


def kernel(x, weight, *, STRIP=4, BLOCK_C=32, HEIGHT=7, num_warps=1):
    B, H, W, C = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(W, STRIP) * triton.cdiv(C, BLOCK_C), triton.cdiv(H, HEIGHT), B)
    rolling_kernel[grid](x, weight, out, H, W, C, STRIP, BLOCK_C, HEIGHT, num_warps=num_warps)
    return out
