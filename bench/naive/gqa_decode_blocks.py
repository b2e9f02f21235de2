"""Decode attention with grouped heads over blocks of 16 tokens; a helper scores a block."""

import math

import torch
import triton
import triton.language as tl

SHAPES = [{"bs": 8, "num_q_heads": 32, "kv_len": 8192}]
HELD_OUT_SHAPES = [{"bs": 3, "num_q_heads": 16, "kv_len": 2050}]
TOLERANCE = {"rtol": 2e-2, "atol": 1e-2}


def reference(q, k, v):
    group = q.shape[1] // k.shape[2]
    kk = k.float().repeat_interleave(group, dim=2)
    vv = v.float().repeat_interleave(group, dim=2)
    s = torch.einsum("bhd,bthd->bht", q.float(), kk) / math.sqrt(q.shape[-1])
    return torch.einsum("bht,bthd->bhd", s.softmax(-1), vv).to(q.dtype)


def inputs(bs=8, num_q_heads=32, kv_len=8192, num_kv_heads=8, head_dim=128, device="cuda"):
    def mk(*s):
        return torch.randn(*s, dtype=torch.bfloat16, device=device)

    return (
        mk(bs, num_q_heads, head_dim),
        mk(bs, kv_len, num_kv_heads, head_dim),
        mk(bs, kv_len, num_kv_heads, head_dim),
    )


@triton.jit
def _score(q, k_base, offs_t, offs_d, stride_kt, mask_t, sm_scale):
    k = tl.load(
        k_base + offs_t[:, None] * stride_kt + offs_d[None, :], mask=mask_t[:, None], other=0.0
    )
    qk = tl.sum(q[None, :] * k.to(tl.float32), 1) * sm_scale
    return tl.where(mask_t, qk, float("-inf"))


@triton.jit
def decode_attn_kernel(
    Q,
    K,
    V,
    Out,
    stride_qb,
    stride_qh,
    stride_kb,
    stride_kt,
    stride_kh,
    stride_vb,
    stride_vt,
    stride_vh,
    stride_ob,
    stride_oh,
    kv_len,
    kv_group,
    sm_scale,
    D: tl.constexpr,
    BLOCK_T: tl.constexpr,
):
    cur_batch = tl.program_id(0)
    cur_head = tl.program_id(1)
    cur_kv_head = cur_head // kv_group
    offs_d = tl.arange(0, D)
    q = tl.load(Q + cur_batch * stride_qb + cur_head * stride_qh + offs_d).to(tl.float32)
    k_base = K + cur_batch * stride_kb + cur_kv_head * stride_kh
    v_base = V + cur_batch * stride_vb + cur_kv_head * stride_vh
    e_max = -float("inf")
    e_sum = 0.0
    acc = tl.zeros([D], dtype=tl.float32)
    for start_t in range(0, kv_len, BLOCK_T):
        offs_t = start_t + tl.arange(0, BLOCK_T)
        mask_t = offs_t < kv_len
        qk = _score(q, k_base, offs_t, offs_d, stride_kt, mask_t, sm_scale)
        n_e_max = tl.maximum(tl.max(qk, 0), e_max)
        re_scale = tl.exp(e_max - n_e_max)
        p = tl.exp(qk - n_e_max)
        v = tl.load(
            v_base + offs_t[:, None] * stride_vt + offs_d[None, :], mask=mask_t[:, None], other=0.0
        )
        acc = acc * re_scale + tl.sum(p[:, None] * v.to(tl.float32), 0)
        e_sum = e_sum * re_scale + tl.sum(p, 0)
        e_max = n_e_max
    tl.store(
        Out + cur_batch * stride_ob + cur_head * stride_oh + offs_d,
        (acc / e_sum).to(Out.dtype.element_ty),
    )


def kernel(q, k, v):
    bs, nq, d = q.shape
    _, kv_len, nkv, _ = k.shape
    o = torch.empty_like(q)
    decode_attn_kernel[(bs, nq)](
        q,
        k,
        v,
        o,
        q.stride(0),
        q.stride(1),
        k.stride(0),
        k.stride(1),
        k.stride(2),
        v.stride(0),
        v.stride(1),
        v.stride(2),
        o.stride(0),
        o.stride(1),
        kv_len,
        nq // nkv,
        1.0 / math.sqrt(d),
        D=d,
        BLOCK_T=16,
    )
    return o
