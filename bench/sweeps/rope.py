"""Rotary position embedding: the two halves of each head turned by the token's angles."""

import torch
import triton
import triton.language as tl

SHAPES = [{"T": 8192, "H": 32, "D": 128}]
SPACE = {
    "TOKENS": [1, 2, 4, 8],
    "HEADS": [1, 2, 4, 8, 16, 32],
    "num_warps": [1, 2, 4, 8],
}
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def reference(x, cos, sin):
    low, high = x.float().chunk(2, dim=-1)
    cos, sin = cos[:, None, :], sin[:, None, :]
    return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=-1).to(x.dtype)


def inputs(T=8192, H=32, D=128, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(T, H, D, dtype=dtype, device=device)
    angles = torch.rand(T, D // 2, device=device) * 6.28
    return x, angles.cos(), angles.sin()


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


def kernel(x, cos, sin, *, TOKENS=1, HEADS=16, num_warps=4):
    T, H, D = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(T, TOKENS), triton.cdiv(H, HEADS))
    rope_kernel[grid](x, cos, sin, out, T, H, D // 2, TOKENS, HEADS, num_warps=num_warps)
    return out
