"""Attention pooling of a sequence: softmax over time of learned scores, one program a sequence."""

import torch
import triton
import triton.language as tl

SHAPES = [{"batch": 16, "steps": 16384}]
HELD_OUT_SHAPES = [{"batch": 7, "steps": 9000}]
TOLERANCE = {"rtol": 2e-2, "atol": 1e-2}


def reference(x, w):
    xf = x.float()
    weights = torch.softmax(xf @ w.float(), dim=1)
    return (weights[:, :, None] * xf).sum(1)


def inputs(batch=16, steps=16384, feat=128, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(batch, steps, feat, dtype=dtype, device=device)
    w = torch.randn(feat, dtype=dtype, device=device) * 0.3
    return x, w


@triton.jit
def pool_kernel(x_ptr, w_ptr, y_ptr, steps, stride_b, stride_t, F: tl.constexpr, T: tl.constexpr):
    row = tl.program_id(0)
    f = tl.arange(0, F)
    w = tl.load(w_ptr + f).to(tl.float32)
    biggest = -float("inf")
    total = 0.0
    pooled = tl.zeros((F,), dtype=tl.float32)
    base = x_ptr + row * stride_b
    for t0 in range(0, tl.cdiv(steps, T)):
        t = t0 * T + tl.arange(0, T)
        x = tl.load(
            base + t[:, None] * stride_t + f[None, :], mask=(t < steps)[:, None], other=0.0
        ).to(tl.float32)
        score = tl.where(t < steps, tl.sum(x * w[None, :], 1), -float("inf"))
        now = tl.maximum(biggest, tl.max(score, 0))
        e = tl.exp(score - now)
        shrink = tl.exp(biggest - now)
        total = shrink * total + tl.sum(e, 0)
        pooled = shrink * pooled + tl.sum(e[:, None] * x, 0)
        biggest = now
    tl.store(y_ptr + row * F + f, pooled / total)


def kernel(x, w):
    batch, steps, feat = x.shape
    y = torch.empty((batch, feat), dtype=torch.float32, device=x.device)
    pool_kernel[(batch,)](x, w, y, steps, x.stride(0), x.stride(1), F=feat, T=16)
    return y
