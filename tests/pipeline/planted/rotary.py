"""Pairs that lie next to each other instead of half a head apart."""

import torch
import triton
import triton.language as tl

PLANTED = "vector_width"


def inputs(T=16384, H=32, D=128, device="cuda"):
    x = torch.randn(T, H, D, device=device, dtype=torch.bfloat16)
    angle = torch.randn(T, D // 2, device=device)
    return x, angle.cos(), angle.sin()


def reference(x, cos, sin):
    a, b = x.chunk(2, -1)
    c, s = cos[:, None], sin[:, None]
    return torch.cat([a * c - b * s, b * c + a * s], -1).to(x.dtype)


@triton.jit
def rotary_kernel(x, cos, sin, out, H: tl.constexpr, D: tl.constexpr, PLANT: tl.constexpr):
    token = tl.program_id(0)
    half: tl.constexpr = D // 2
    head, pair = tl.arange(0, H)[:, None], tl.arange(0, half)[None, :]
    base = (token * H + head) * D
    first = base + (2 * pair if PLANT else pair)
    second = first + (1 if PLANT else half)
    c, s = tl.load(cos + token * half + pair), tl.load(sin + token * half + pair)
    a, b = tl.load(x + first).to(tl.float32), tl.load(x + second).to(tl.float32)
    tl.store(out + first, (a * c - b * s).to(tl.bfloat16))
    tl.store(out + second, (b * c + a * s).to(tl.bfloat16))


def kernel(x, cos, sin, *, PLANT=False, num_warps=4):
    out = torch.empty_like(x)
    T, H, D = x.shape
    rotary_kernel[(T,)](x, cos, sin, out, H, D, PLANT, num_warps=num_warps)
    return out
