"""Attention over a padded batch: a loop takes all keys; the length of a sequence masks them."""

import torch
import triton
import triton.language as tl

SHAPES = [{"B": 8, "H": 8, "S": 1024}]
HELD_OUT_SHAPES = [{"B": 3, "H": 2, "S": 200}]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def reference(q, k, v, lengths):
    s = (q.float() @ k.float().transpose(2, 3)) * q.shape[-1] ** -0.5
    keys = torch.arange(k.shape[2], device=q.device)
    s = s.masked_fill(keys >= lengths[:, None, None, None], float("-inf"))
    return (torch.softmax(s, -1) @ v.float()).to(q.dtype)


def inputs(B=8, H=8, S=1024, D=64, dtype=torch.bfloat16, device="cuda"):
    lengths = torch.randint(S // 8, S // 2, (B,), device=device, dtype=torch.int32)
    return *(torch.randn(B, H, S, D, dtype=dtype, device=device) for _ in range(3)), lengths


@triton.jit
def padded_attention(
    Q, K, V, lengths, O, H, S, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    bh = tl.program_id(1)
    length = tl.load(lengths + bh // H)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    q = tl.load(Q + (bh * S + rows[:, None]) * D + d[None, :], mask=rows[:, None] < S, other=0.0)
    m = tl.full([BLOCK_M], float("-inf"), dtype=tl.float32)
    l = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    for start in range(0, S, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        kv = (bh * S + cols[:, None]) * D + d[None, :]
        k = tl.load(K + kv, mask=cols[:, None] < S, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        scores = tl.where(cols[None, :] < length, scores, float("-inf"))
        m_new = tl.maximum(m, tl.max(scores, axis=1))
        p = tl.exp(scores - m_new[:, None])
        alpha = tl.exp(m - m_new)
        l = l * alpha + tl.sum(p, axis=1)
        v = tl.load(V + kv, mask=cols[:, None] < S, other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        m = m_new
    out = acc / l[:, None]
    place = O + (bh * S + rows[:, None]) * D + d[None, :]
    tl.store(place, out.to(O.dtype.element_ty), mask=rows[:, None] < S)


def kernel(q, k, v, lengths):
    B, H, S, D = q.shape
    out = torch.empty_like(q)
    grid = (triton.cdiv(S, 32), B * H)
    padded_attention[grid](q, k, v, lengths, out, H, S, D**-0.5, D=D, BLOCK_M=32, BLOCK_N=32)
    return out
