"""Rotary embedding of neighbouring pairs, a head of a token a program: few configurations."""

import torch
import triton
import triton.language as tl

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]
KIND = "elementwise"
SHAPES = [
    {"seqlen": 4096, "nheads": 32, "headdim": 128, "dtype": "bfloat16"},
    {"seqlen": 16384, "nheads": 8, "headdim": 64, "dtype": "float16"},
    {"seqlen": 777, "nheads": 20, "headdim": 192, "dtype": "float32"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}
SPACE = {"num_warps": [1, 2, 4, 8], "num_stages": [1, 2]}


@triton.jit
def _apply_rotary(
    OUT, X, COS, SIN, stride_out_s, stride_out_h, stride_x_s, stride_x_h, stride_cos,
    rotary_half: tl.constexpr, BLOCK_HALF: tl.constexpr,
):  # fmt: skip
    token, head = tl.program_id(0), tl.program_id(1)
    half = tl.arange(0, BLOCK_HALF)
    mask = half < rotary_half
    cos = tl.load(COS + token * stride_cos + half, mask=mask, other=1.0).to(tl.float32)
    sin = tl.load(SIN + token * stride_cos + half, mask=mask, other=0.0).to(tl.float32)
    x = X + token * stride_x_s + head * stride_x_h + 2 * half
    even = tl.load(x, mask=mask, other=0.0).to(tl.float32)
    odd = tl.load(x + 1, mask=mask, other=0.0).to(tl.float32)
    out = OUT + token * stride_out_s + head * stride_out_h + 2 * half
    tl.store(out, even * cos - odd * sin, mask=mask)
    tl.store(out + 1, even * sin + odd * cos, mask=mask)


def inputs(seqlen=4096, nheads=32, headdim=128, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(seqlen, nheads, headdim, dtype=dtype, device=device)
    angles = torch.rand(seqlen, headdim // 2, device=device) * 6.28
    return x, angles.cos(), angles.sin()


def reference(x, cos, sin):
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = cos[:, None], sin[:, None]
    turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
    return turned.flatten(-2).to(x.dtype)


def kernel(x, cos, sin, *, num_warps=4, num_stages=2):
    seqlen, nheads, headdim = x.shape
    out = torch.empty_like(x)
    _apply_rotary[(seqlen, nheads)](
        out, x, cos, sin, out.stride(0), out.stride(1), x.stride(0), x.stride(1), cos.stride(0),
        rotary_half=headdim // 2, BLOCK_HALF=triton.next_power_of_2(headdim // 2),
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
