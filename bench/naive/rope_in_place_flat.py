"""Rotary positions written into the queries themselves: a head of a token a program, 1-D grid."""

import torch
import triton
import triton.language as tl

SHAPES = [{"batch": 4, "tokens": 2048, "heads": 16}]
HELD_OUT_SHAPES = [{"batch": 2, "tokens": 77, "heads": 5}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def reference(q, cos, sin):
    one, two = q.float().chunk(2, -1)
    c, s = cos[None, :, None, :], sin[None, :, None, :]
    return torch.cat([one * c - two * s, two * c + one * s], -1).to(q.dtype)


def inputs(batch=4, tokens=2048, heads=16, device="cuda"):
    q = torch.randn(batch, tokens, heads, 128, dtype=torch.bfloat16, device=device)
    angle = torch.rand(tokens, 64, device=device) * 6
    return q, angle.cos(), angle.sin()


@triton.jit
def rotate(x1, x2, c, s, CONJ: tl.constexpr):
    if CONJ:
        s = -s
    return x1 * c - x2 * s, x2 * c + x1 * s


@triton.jit
def rope_kernel(
    Q, COS, SIN, T, NH, stride_qb, stride_qt, stride_qh, HALF: tl.constexpr, CONJ: tl.constexpr
):
    pid = tl.program_id(0)
    head = pid % NH
    tok = (pid // NH) % T
    bat = pid // (NH * T)
    d = tl.arange(0, HALF)
    base = Q + bat * stride_qb + tok * stride_qt + head * stride_qh
    c = tl.load(COS + tok * HALF + d)
    s = tl.load(SIN + tok * HALF + d)
    a = tl.load(base + d).to(tl.float32)
    b = tl.load(base + HALF + d).to(tl.float32)
    oa, ob = rotate(a, b, c, s, CONJ)
    tl.store(base + d, oa.to(Q.dtype.element_ty))
    tl.store(base + HALF + d, ob.to(Q.dtype.element_ty))


def kernel(q, cos, sin):
    out = q.clone()
    b, t, h, d = out.shape
    rope_kernel[(b * t * h,)](
        out, cos, sin, t, h, out.stride(0), out.stride(1), out.stride(2), HALF=d // 2, CONJ=False
    )
    return out
