"""Causal attention of new tokens after a prefix: scores, a softmax in three loops, values."""

import torch
import triton
import triton.language as tl

SHAPES = [{"BH": 64, "Q": 512, "S": 1024, "D": 128}]
HELD_OUT_SHAPES = [{"BH": 2, "Q": 33, "S": 80, "D": 128}]
TOLERANCE = {"rtol": 2e-2, "atol": 1e-2}


def reference(q, k, v):
    s = q.float() @ k.float().transpose(1, 2) / q.shape[-1] ** 0.5
    Q, S = s.shape[1:]
    keep = torch.ones(Q, S, dtype=torch.bool, device=q.device).tril(S - Q)
    return (torch.softmax(s.masked_fill(~keep, float("-inf")), -1) @ v.float()).to(q.dtype)


def inputs(BH=64, Q=512, S=1024, D=128, device="cuda"):
    q = torch.randn(BH, Q, D, dtype=torch.bfloat16, device=device)
    k, v = (torch.randn(BH, S, D, dtype=torch.bfloat16, device=device) for _ in range(2))
    return q, k, v


@triton.jit
def raw_scores(q, k, s, Q, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    bh = tl.program_id(2)
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    d = tl.arange(0, D)
    a = tl.load(q + bh * Q * D + m[:, None] * D + d[None, :], mask=m[:, None] < Q, other=0.0)
    b = tl.load(k + bh * S * D + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
    mask = (m[:, None] < Q) & (n[None, :] < S)
    tl.store(s + bh * Q * S + m[:, None] * S + n[None, :], tl.dot(a, b) * scale, mask=mask)


@triton.jit
def causal_rows(s, p, Q, S, BLOCK: tl.constexpr):
    i = tl.program_id(0)
    bh = tl.program_id(1)
    top = -float("inf")
    for c0 in range(0, S, BLOCK):
        c = c0 + tl.arange(0, BLOCK)
        x = tl.load(s + bh * Q * S + i * S + c, mask=c < S, other=-float("inf"))
        x = tl.where(c <= i + S - Q, x, -float("inf"))
        top = tl.maximum(top, tl.max(x, 0))
    total = 0.0
    for c0 in range(0, S, BLOCK):
        c = c0 + tl.arange(0, BLOCK)
        x = tl.load(s + bh * Q * S + i * S + c, mask=c < S, other=-float("inf"))
        x = tl.where(c <= i + S - Q, x, -float("inf"))
        total += tl.sum(tl.exp(x - top), 0)
    for c0 in range(0, S, BLOCK):
        c = c0 + tl.arange(0, BLOCK)
        x = tl.load(s + bh * Q * S + i * S + c, mask=c < S, other=-float("inf"))
        x = tl.where(c <= i + S - Q, x, -float("inf"))
        tl.store(p + bh * Q * S + i * S + c, (tl.exp(x - top) / total).to(tl.bfloat16), mask=c < S)


@triton.jit
def weigh(p, v, o, Q, S, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    bh = tl.program_id(1)
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, S, BN):
        n = start + tl.arange(0, BN)
        mask = (m[:, None] < Q) & (n[None, :] < S)
        a = tl.load(p + bh * Q * S + m[:, None] * S + n[None, :], mask=mask, other=0.0)
        b = tl.load(v + bh * S * D + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        acc += tl.dot(a, b)
    tl.store(o + bh * Q * D + m[:, None] * D + d[None, :], acc.to(tl.bfloat16), mask=m[:, None] < Q)


def kernel(q, k, v):
    BH, Q, D = q.shape
    S = k.shape[1]
    s = torch.empty((BH, Q, S), dtype=torch.float32, device=q.device)
    p = torch.empty((BH, Q, S), dtype=q.dtype, device=q.device)
    o = torch.empty_like(q)
    raw_scores[(triton.cdiv(Q, 64), triton.cdiv(S, 64), BH)](
        q, k, s, Q, S, D**-0.5, D=D, BM=64, BN=64
    )
    causal_rows[(Q, BH)](s, p, Q, S, BLOCK=256)
    weigh[(triton.cdiv(Q, 64), BH)](p, v, o, Q, S, D=D, BM=64, BN=64)
    return o
