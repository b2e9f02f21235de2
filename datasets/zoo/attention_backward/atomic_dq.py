"""A single sweep over blocks of keys: dk and dv stay in registers, dq is added up atomically."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_backward.problem import (
    LOG2_E,
    SHAPES,
    TOLERANCE,
    fits,
    inputs,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_M": [16, 32, 64],
    "BLOCK_N": [16, 32, 64, 128],
    "HEADS_FIRST": [False, True],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def sweep_kernel(
    Q, K, V, OUT, DO, LSE, DQ, DK, DV, S, sm_scale, qk_scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    HEADS_FIRST: tl.constexpr, LOG2_E: tl.constexpr,
):  # fmt: skip
    base = tl.program_id(0 if HEADS_FIRST else 1) * S
    start_n = tl.program_id(1 if HEADS_FIRST else 0) * BLOCK_N
    offs_n = start_n + tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    kv_at = (base + offs_n)[:, None] * D + offs_d
    k = tl.load(K + kv_at, mask=offs_n[:, None] < S, other=0.0)
    v = tl.load(V + kv_at, mask=offs_n[:, None] < S, other=0.0)
    dk = tl.zeros([BLOCK_N, D], tl.float32)
    dv = tl.zeros([BLOCK_N, D], tl.float32)
    begin = (start_n // BLOCK_M) * BLOCK_M if CAUSAL else 0
    for start_m in range(begin, S, BLOCK_M):
        offs_m = start_m + tl.arange(0, BLOCK_M)
        row_mask = offs_m < S
        at = (base + offs_m)[:, None] * D + offs_d
        q = tl.load(Q + at, mask=row_mask[:, None], other=0.0)
        do = tl.load(DO + at, mask=row_mask[:, None], other=0.0)
        o = tl.load(OUT + at, mask=row_mask[:, None], other=0.0)
        delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
        lse = tl.load(LSE + base + offs_m, mask=row_mask, other=0.0)
        # Transposed scores: the weights are then the left operand that dv and dk want.
        p_t = tl.exp2(tl.dot(k, q.T) * qk_scale - (lse * LOG2_E)[None, :])
        keep = (offs_n[:, None] < S) & row_mask[None, :]
        if CAUSAL:
            keep &= offs_n[:, None] <= offs_m[None, :]
        p_t = tl.where(keep, p_t, 0.0)
        dv = tl.dot(p_t.to(do.dtype), do, dv)
        dp_t = tl.dot(v, do.T)
        ds_t = (p_t * (dp_t - delta[None, :]) * sm_scale).to(q.dtype)
        dk = tl.dot(ds_t, q, dk)
        dq = tl.dot(ds_t.T, k)
        tl.atomic_add(DQ + at, dq, mask=row_mask[:, None], sem="relaxed")
    tl.store(DK + kv_at, dk.to(DK.dtype.element_ty), mask=offs_n[:, None] < S)
    tl.store(DV + kv_at, dv.to(DV.dtype.element_ty), mask=offs_n[:, None] < S)


def valid(params, shape):
    m, n = params["BLOCK_M"], params["BLOCK_N"]
    return fits(shape, m, n, params["num_warps"], params["num_stages"])


def kernel(
    q, k, v, out, lse, grad_out, causal, *,
    BLOCK_M=32, BLOCK_N=64, HEADS_FIRST=False, num_warps=4, num_stages=2,
):  # fmt: skip
    B, H, S, D = q.shape
    dq = torch.zeros(q.shape, dtype=torch.float32, device=q.device)
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    grid = (triton.cdiv(S, BLOCK_N), B * H)
    sweep_kernel[grid[::-1] if HEADS_FIRST else grid](
        q, k, v, out, grad_out, lse, dq, dk, dv, S, D**-0.5, D**-0.5 * LOG2_E,
        D, causal, BLOCK_M, BLOCK_N, HEADS_FIRST, LOG2_E,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return dq.to(q.dtype), dk, dv
