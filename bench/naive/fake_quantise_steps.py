"""Fake quantisation step by step: flat launches with other blocks each, over one scratch tensor."""

import torch
import triton
import triton.language as tl

SHAPES = [{"n": 33554432}]
HELD_OUT_SHAPES = [{"n": 1000003}]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def reference(x, step):
    s = step.float()
    return ((x.float() / s).clamp(-7.4, 7.4) * s).to(x.dtype)


def inputs(n=33554432, dtype=torch.bfloat16, device="cuda"):
    return torch.randn(n, dtype=dtype, device=device), torch.tensor([0.11], device=device)


@triton.jit
def div_kernel(x, step, work, total, BLK: tl.constexpr):
    i = tl.program_id(axis=0) * BLK + tl.arange(0, BLK)
    inside = i < total
    scale = tl.load(step)
    tl.store(work + i, tl.load(x + i, mask=inside).to(tl.float32) / scale, mask=inside)


@triton.jit
def clip_kernel(work, lo, hi, total, BLK: tl.constexpr):
    base = tl.program_id(axis=0) * BLK
    idx = base + tl.arange(0, BLK)
    w = tl.load(work + idx, mask=idx < total, other=0.0)
    w = tl.maximum(w, lo)
    w = tl.minimum(w, hi)
    tl.store(work + idx, w, mask=idx < total)


@triton.jit
def mul_kernel(work, step, out, total, BLK: tl.constexpr):
    pid = tl.program_id(axis=0)
    idx = pid * BLK + tl.arange(0, BLK)
    keep = idx < total
    q = tl.load(work + idx, mask=keep)
    tl.store(out + idx, (q * tl.load(step)).to(out.dtype.element_ty), mask=keep)


def kernel(x, step):
    total = x.numel()
    work = torch.empty(total, dtype=torch.float32, device=x.device)
    out = torch.empty_like(x)
    div_kernel[(triton.cdiv(total, 256),)](x, step, work, total, 256)
    clip_kernel[(triton.cdiv(total, 128),)](work, -7.4, 7.4, total, 128)
    mul_kernel[(triton.cdiv(total, 512),)](work, step, out, total, 512)
    return out
