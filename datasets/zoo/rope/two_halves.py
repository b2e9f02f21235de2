"""Tiles of tokens by heads: each half of the heads is loaded, turned and stored by itself."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.rope.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "TOKENS": [1, 2, 4, 8, 16],
    "HEADS": [1, 2, 4, 8, 16, 32],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def rope_kernel(
    x_ptr, cos_ptr, sin_ptr, out_ptr, T, H,
    HALF: tl.constexpr, TOKENS: tl.constexpr, HEADS: tl.constexpr,
):  # fmt: skip
    t = (tl.program_id(0) * TOKENS + tl.arange(0, TOKENS))[:, None, None]
    h = (tl.program_id(1) * HEADS + tl.arange(0, HEADS))[None, :, None]
    d = tl.arange(0, HALF)[None, None, :]
    inside = (t < T) & (h < H)
    offsets = (t * H + h) * 2 * HALF + d
    low = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    high = tl.load(x_ptr + offsets + HALF, mask=inside, other=0.0).to(tl.float32)
    cos = tl.load(cos_ptr + t * HALF + d, mask=t < T, other=0.0)
    sin = tl.load(sin_ptr + t * HALF + d, mask=t < T, other=0.0)
    kind = out_ptr.dtype.element_ty
    tl.store(out_ptr + offsets, (low * cos - high * sin).to(kind), mask=inside)
    tl.store(out_ptr + offsets + HALF, (high * cos + low * sin).to(kind), mask=inside)


def valid(params, shape):
    """One to 64 pairs a thread."""
    pairs = params["TOKENS"] * params["HEADS"] * shape["D"] // 2
    return 1 <= pairs / (32 * params["num_warps"]) <= 64


def kernel(x, cos, sin, *, TOKENS=1, HEADS=8, num_warps=2):
    T, H, D = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(T, TOKENS), triton.cdiv(H, HEADS))
    rope_kernel[grid](x, cos, sin, out, T, H, D // 2, TOKENS, HEADS, num_warps=num_warps)
    return out
