"""Causal attention, forward: online softmax over key blocks, those above the diagonal skipped.

The algorithm is FlashAttention-2's (Dao 2023, arXiv:2307.08691), with exponents in base 2.
"""

import math

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

SHAPES = [
    {"B": 4, "H": 32, "S": 4096, "D": 128},
    {"B": 4, "H": 32, "S": 4096, "D": 64},
    {"B": 2, "H": 5, "S": 1003, "D": 64},  # the last blocks of queries and keys are partial
]
SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}
# Weights are rounded to bf16 before they meet v, here and in the reference.
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}

SHARED_BYTES = 227 * 1024  # what a block may have on sm_90
ACCUMULATORS = 128  # fp32 scores and outputs a thread can hold next to the rest


def reference(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def inputs(B=4, H=32, S=4096, D=128, dtype=torch.bfloat16, device="cuda"):
    return tuple(torch.randn(B, H, S, D, dtype=dtype, device=device) for _ in range(3))


@triton.jit
def attend(
    acc,
    total,
    peak,
    q,
    k_ptr,
    v_ptr,
    rows,
    first,
    last,
    S,
    scale,
    D: tl.constexpr,
    BLOCK_N: tl.constexpr,
    MASKED: tl.constexpr,
):
    """Fold the keys from `first` to `last` into the running sum, its weights and their peak."""
    d = tl.arange(0, D)
    for start in range(first, last, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        offsets = cols[:, None] * D + d[None, :]
        if MASKED:
            inside = cols[:, None] < S
            k = tl.load(k_ptr + offsets, mask=inside, other=0.0)
            v = tl.load(v_ptr + offsets, mask=inside, other=0.0)
        else:
            k = tl.load(k_ptr + offsets)
            v = tl.load(v_ptr + offsets)

        scores = tl.dot(q, tl.trans(k))
        if MASKED:
            # Keys beyond S lie right of the diagonal of every row below S: this drops them too.
            scores = tl.where(rows[:, None] >= cols[None, :], scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1) * scale)
        weights = tl.exp2(scores * scale - new_peak[:, None])
        decay = tl.exp2(peak - new_peak)
        total = total * decay + tl.sum(weights, axis=1)
        acc = tl.dot(weights.to(v.dtype), v, acc * decay[:, None])
        peak = new_peak
    return acc, total, peak


@triton.jit
def attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    S,
    scale,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    # The last rows have the most keys: they start first, so that the tail is made of short ones.
    row0 = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK_M
    head = tl.program_id(1).to(tl.int64) * S * D  # 64 bits; within a head 32 do
    rows = row0 + tl.arange(0, BLOCK_M)
    offsets = head + (rows[:, None] * D + tl.arange(0, D)[None, :])
    mask = rows[:, None] < S
    q = tl.load(q_ptr + offsets, mask=mask, other=0.0)

    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    # Blocks wholly left of the diagonal need no mask; those it crosses do; the rest is skipped.
    diagonal = row0 // BLOCK_N * BLOCK_N
    end = min(row0 + BLOCK_M, S)
    acc, total, peak = attend(
        acc, total, peak, q, k_ptr + head, v_ptr + head, rows, 0, diagonal, S, scale, D, BLOCK_N,
        MASKED=False,
    )  # fmt: skip
    acc, total, peak = attend(
        acc, total, peak, q, k_ptr + head, v_ptr + head, rows, diagonal, end, S, scale, D, BLOCK_N,
        MASKED=True,
    )  # fmt: skip

    out = acc * (1.0 / total)[:, None]
    tl.store(out_ptr + offsets, out.to(out_ptr.dtype.element_ty), mask=mask)


def valid(params, shape):
    """Queries and pipelined keys and values must fit in shared memory, the rest in registers."""
    block_m, block_n, D = params["BLOCK_M"], params["BLOCK_N"], shape["D"]
    shared = (block_m + 2 * params["num_stages"] * block_n) * D * 2  # two bytes an element
    accumulators = block_m * (block_n + D) / (32 * params["num_warps"])
    return shared <= SHARED_BYTES and accumulators <= ACCUMULATORS


def kernel(q, k, v, *, BLOCK_M=128, BLOCK_N=64, num_warps=8, num_stages=3):
    B, H, S, D = q.shape
    out = torch.empty_like(q)
    grid = (triton.cdiv(S, BLOCK_M), B * H)
    attention_kernel[grid](
        q,
        k,
        v,
        out,
        S,
        D**-0.5 * math.log2(math.e),  # exp(x) = exp2(x log2 e)
        D=D,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        num_warps=num_warps,
        num_stages=num_stages,
    )
    return out
