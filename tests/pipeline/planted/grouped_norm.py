"""A whole group in four warps where sixteen held it."""

import torch
import triton
import triton.language as tl

PLANTED = "spills"


def inputs(B=256, G=32, S=16384, device="cuda"):
    return (torch.randn(B, G, S, device=device),)


def reference(x):
    return (x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, correction=0, keepdim=True))


@triton.jit
def group_kernel(x, out, S: tl.constexpr):
    at = tl.program_id(0) * S + tl.arange(0, S)
    value = tl.load(x + at)
    value -= tl.sum(value, 0) / S
    tl.store(out + at, value * tl.rsqrt(tl.sum(value * value, 0) / S))


def kernel(x, *, PLANT=False):
    out = torch.empty_like(x)
    warps = 1 if PLANT else 16
    group_kernel[(x.shape[0] * x.shape[1],)](x, out, x.shape[2], num_warps=warps)
    return out
