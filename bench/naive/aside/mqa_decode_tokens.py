"""Decode with a single key and value head: a flat grid, and one cached token a trip."""

import math

import torch
import triton
import triton.language as tl

SHAPES = [{"n_seq": 16, "n_head": 16, "ctx": 4096}]
HELD_OUT_SHAPES = [{"n_seq": 5, "n_head": 8, "ctx": 3001}]
TOLERANCE = {"rtol": 2e-2, "atol": 1e-2}


def reference(query, keys, values):
    scores = torch.einsum("bhd,bsd->bhs", query.float(), keys.float()) / math.sqrt(query.shape[2])
    return torch.einsum("bhs,bsd->bhd", scores.softmax(-1), values.float()).half()


def inputs(n_seq=16, n_head=16, ctx=4096, head_dim=64, device="cuda"):
    query = torch.randn(n_seq, n_head, head_dim, dtype=torch.float16, device=device)
    keys = torch.randn(n_seq, ctx, head_dim, dtype=torch.float16, device=device)
    values = torch.randn(n_seq, ctx, head_dim, dtype=torch.float16, device=device)
    return query, keys, values


@triton.jit
def mqa_fwd(q_ptr, k_ptr, v_ptr, o_ptr, n_head, ctx, scale, HEAD_DIM: tl.constexpr):
    pid = tl.program_id(axis=0)
    seq = pid // n_head
    cols = tl.arange(0, HEAD_DIM)
    query = tl.load(q_ptr + pid * HEAD_DIM + cols).to(tl.float32)
    running_max = float("-inf")
    denom = 0.0
    out = tl.zeros((HEAD_DIM,), tl.float32)
    for t in range(ctx):
        key = tl.load(k_ptr + (seq * ctx + t) * HEAD_DIM + cols).to(tl.float32)
        logit = tl.sum(query * key, axis=0) * scale
        new_max = tl.maximum(running_max, logit)
        correction = tl.exp(running_max - new_max)
        weight = tl.exp(logit - new_max)
        value = tl.load(v_ptr + (seq * ctx + t) * HEAD_DIM + cols).to(tl.float32)
        denom = denom * correction + weight
        out = out * correction + weight * value
        running_max = new_max
    tl.store(o_ptr + pid * HEAD_DIM + cols, (out / denom).to(tl.float16))


def kernel(query, keys, values):
    n_seq, n_head, head_dim = query.shape
    ctx = keys.shape[1]
    output = torch.empty_like(query)
    mqa_fwd[(n_seq * n_head,)](
        query, keys, values, output, n_head, ctx, 1.0 / math.sqrt(head_dim), HEAD_DIM=head_dim
    )
    return output
