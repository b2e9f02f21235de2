"""Dropout by a seed's hash, a residual, an RMS norm: three launches with two scratch tensors."""

import torch
import triton
import triton.language as tl

SHAPES = [{"T": 8192, "D": 4096}]
HELD_OUT_SHAPES = [{"T": 101, "D": 1000}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def reference(x, r, w):
    n = x.numel()
    at = torch.arange(n, device=x.device, dtype=torch.int64).reshape(x.shape)
    keep = (((at * 1103515 + 12345) // 64) % 1024) >= 103
    h = torch.where(keep, x.float() / 0.9, 0.0) + r.float()
    return (h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)


def inputs(T=8192, D=4096, device="cuda"):
    def t(*s):
        return torch.randn(*s, dtype=torch.bfloat16, device=device)

    return t(T, D), t(T, D), t(D)


@triton.jit
def keep_bit(at, seed):
    return (((at.to(tl.int64) * 1103515 + seed) // 64) % 1024) >= 103


@triton.jit
def dropout_kernel(x, tmp, n, seed, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(tmp + at, tl.where(keep_bit(at, seed), v * scale, 0.0), mask=at < n)


@triton.jit
def residual_kernel(tmp, r, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(tmp + at, mask=at < n, other=0.0)
    v += tl.load(r + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(tmp + at, v, mask=at < n)


@triton.jit
def rms_kernel(tmp, w, y, D, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for s in range(0, D, BLOCK):
        c = s + tl.arange(0, BLOCK)
        v = tl.load(tmp + row * D + c, mask=c < D, other=0.0)
        total += tl.sum(v * v, axis=0)
    rstd = tl.rsqrt(total / D + eps)
    for s in range(0, D, BLOCK):
        c = s + tl.arange(0, BLOCK)
        v = tl.load(tmp + row * D + c, mask=c < D, other=0.0)
        g = tl.load(w + c, mask=c < D, other=0.0).to(tl.float32)
        tl.store(y + row * D + c, (v * rstd * g).to(y.dtype.element_ty), mask=c < D)


def kernel(x, r, w):
    T, D = x.shape
    tmp = torch.empty((T, D), dtype=torch.float32, device=x.device)
    y = torch.empty_like(x)
    n = T * D
    grid = (triton.cdiv(n, 256),)
    dropout_kernel[grid](x, tmp, n, 12345, 1.0 / 0.9, BLOCK=256)
    residual_kernel[grid](tmp, r, n, BLOCK=256)
    rms_kernel[(T,)](tmp, w, y, D, 1e-6, BLOCK=256)
    return y
