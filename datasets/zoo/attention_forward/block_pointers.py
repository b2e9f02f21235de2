"""Block pointers that walk along keys and values; keys are read transposed, exponents in base 2."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_forward.problem import SHAPES, TOLERANCE, fits, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [16, 32, 64, 128],
    "HEADS_FIRST": [False, True],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}
LOG2_E = 1.4426950408889634


@triton.jit
def attend_block_pointers(
    Q, K, V, Out, H, KV, S, qk_scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    HEADS_FIRST: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(1 if HEADS_FIRST else 0) * BLOCK_M
    bh = tl.program_id(0 if HEADS_FIRST else 1)
    q_base = bh * S * D
    kv_base = ((bh // H) * KV + (bh % H) // (H // KV)) * S * D

    q_block = tl.make_block_ptr(Q + q_base, (S, D), (D, 1), (start_m, 0), (BLOCK_M, D), (1, 0))
    k_block = tl.make_block_ptr(K + kv_base, (D, S), (1, D), (0, 0), (D, BLOCK_N), (0, 1))
    v_block = tl.make_block_ptr(V + kv_base, (S, D), (D, 1), (0, 0), (BLOCK_N, D), (1, 0))
    o_block = tl.make_block_ptr(Out + q_base, (S, D), (D, 1), (start_m, 0), (BLOCK_M, D), (1, 0))
    q = tl.load(q_block, boundary_check=(0,), padding_option="zero")

    m_i = tl.full([BLOCK_M], -float("inf"), dtype=tl.float32)
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    offs_m = start_m + tl.arange(0, BLOCK_M)
    stop = tl.minimum(start_m + BLOCK_M, S) if CAUSAL else S
    for start_n in range(0, stop, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        k = tl.load(k_block, boundary_check=(1,), padding_option="zero")
        qk = tl.dot(q, k) * qk_scale
        keep = (offs_n < S)[None, :]
        if CAUSAL:
            keep &= offs_m[:, None] >= offs_n[None, :]
        qk = tl.where(keep, qk, -float("inf"))
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        alpha = tl.exp2(m_i - m_new)
        p = tl.exp2(qk - m_new[:, None])
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(v_block, boundary_check=(0,), padding_option="zero")
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m_i = m_new
        k_block = tl.advance(k_block, (0, BLOCK_N))
        v_block = tl.advance(v_block, (BLOCK_N, 0))

    acc = acc / l_i[:, None]
    tl.store(o_block, acc.to(Out.dtype.element_ty), boundary_check=(0,))


def valid(params, shape):
    """Tiles fit; the second axis of a grid holds 65,535 programs, which no shape here exceeds."""
    return fits(
        shape, params["BLOCK_M"], params["BLOCK_N"], params["num_warps"], params["num_stages"]
    )


def kernel(
    q, k, v, causal, *, BLOCK_M=64, BLOCK_N=64, HEADS_FIRST=False, num_warps=4, num_stages=2
):
    B, H, S, D = q.shape
    out = torch.empty_like(q)
    grid = (triton.cdiv(S, BLOCK_M), B * H)
    attend_block_pointers[grid[::-1] if HEADS_FIRST else grid](
        q, k, v, out, H, k.shape[1], S, D**-0.5 * LOG2_E, D, causal, BLOCK_M, BLOCK_N, HEADS_FIRST,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
