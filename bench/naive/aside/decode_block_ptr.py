"""Decode attention for one query a sequence and head: keys and values by block pointers."""

import torch
import triton
import triton.language as tl

SHAPES = [{"Z": 16, "H": 16, "N_CTX": 4096}]
HELD_OUT_SHAPES = [{"Z": 2, "H": 3, "N_CTX": 1000}]
TOLERANCE = {"rtol": 2e-2, "atol": 1e-2}


def reference(q, k, v):
    p = torch.softmax(torch.einsum("zhd,zhnd->zhn", q.float(), k.float()) * 0.125, -1)
    return torch.einsum("zhn,zhnd->zhd", p, v.float()).to(q.dtype)


def inputs(Z=16, H=16, N_CTX=4096, D=64, device="cuda"):
    def t(*s):
        return torch.randn(*s, dtype=torch.float16, device=device)

    return t(Z, H, D), t(Z, H, N_CTX, D), t(Z, H, N_CTX, D)


@triton.jit
def attn_decode(Q, K, V, Out, H, N_CTX, sm_scale, D: tl.constexpr, BN: tl.constexpr):
    off_z, off_h = tl.program_id(0), tl.program_id(1)
    zh = off_z * H + off_h
    d = tl.arange(0, D)
    q = tl.load(Q + zh * D + d).to(tl.float32)
    k_ptrs = tl.make_block_ptr(K + zh * N_CTX * D, (N_CTX, D), (D, 1), (0, 0), (BN, D), (1, 0))
    v_ptrs = tl.make_block_ptr(V + zh * N_CTX * D, (N_CTX, D), (D, 1), (0, 0), (BN, D), (1, 0))
    m_i = -float("inf")
    l_i = 0.0
    acc = tl.zeros([D], dtype=tl.float32)
    for start_n in range(0, N_CTX, BN):
        k = tl.load(k_ptrs, boundary_check=(0,), padding_option="zero").to(tl.float32)
        s = tl.sum(q[None, :] * k, axis=1) * sm_scale
        s = tl.where(start_n + tl.arange(0, BN) < N_CTX, s, -float("inf"))
        m_new = tl.maximum(m_i, tl.max(s, axis=0))
        alpha = tl.exp(m_i - m_new)
        p = tl.exp(s - m_new)
        v = tl.load(v_ptrs, boundary_check=(0,), padding_option="zero").to(tl.float32)
        acc = acc * alpha + tl.sum(p[:, None] * v, axis=0)
        l_i = l_i * alpha + tl.sum(p, axis=0)
        m_i = m_new
        k_ptrs = tl.advance(k_ptrs, (BN, 0))
        v_ptrs = tl.advance(v_ptrs, (BN, 0))
    tl.store(Out + zh * D + d, (acc / l_i).to(Out.dtype.element_ty))


def kernel(q, k, v):
    Z, H, D = q.shape
    o = torch.empty_like(q)
    attn_decode[(Z, H)](q, k, v, o, H, k.shape[2], 0.125, D=D, BN=16)
    return o
