"""A tile of output pixels and channels a program; the window's pixels are loaded one by one."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.average_pool2d.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PIXELS": [1, 2, 4, 8, 16, 32, 64],
    "BLOCK_C": [4, 16, 32, 64, 128, 256],
    "POLICY": ["", "evict_first"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def pixel_kernel(
    x_ptr, out_ptr, H, W, C, P, Q, pixels,
    R: tl.constexpr, PIXELS: tl.constexpr, BLOCK_C: tl.constexpr, POLICY: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    corner = (m // (P * Q) * H + m // Q % P * R) * W + m % Q * R
    inside = (m[:, None] < pixels) & (c < C)
    total = tl.zeros((PIXELS, BLOCK_C), dtype=tl.float32)
    for tap in range(R * R):
        source = corner + tap // R * W + tap % R
        x = tl.load(x_ptr + source[:, None] * C + c, mask=inside, other=0.0, eviction_policy=POLICY)
        total += x.to(tl.float32)
    mean = total * (1.0 / (R * R))
    tl.store(out_ptr + m[:, None] * C + c, mean.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 32 outputs a thread; blocks not far wider than the channels."""
    each = params["PIXELS"] * params["BLOCK_C"] / (32 * params["num_warps"])
    return params["BLOCK_C"] < 2 * shape["C"] and 1 <= each <= 32


def kernel(x, window, *, PIXELS=32, BLOCK_C=4, POLICY="", num_warps=4):
    B, H, W, C = x.shape
    P, Q = H // window, W // window
    out = torch.empty((B, P, Q, C), dtype=x.dtype, device=x.device)
    pixels = B * P * Q
    grid = (triton.cdiv(pixels, PIXELS), triton.cdiv(C, BLOCK_C))
    pixel_kernel[grid](
        x, out, H, W, C, P, Q, pixels, window, PIXELS, BLOCK_C, POLICY, num_warps=num_warps
    )
    return out
