"""All query heads that share keys sit in one tile, row by row, so that keys are read once."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_forward.problem import SHAPES, TOLERANCE, fits, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [16, 32, 64, 128],
    "EVICT": ["", "evict_last"],
    "num_warps": [4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def packed_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, S, scale,
    GROUP: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, EVICT: tl.constexpr,
):  # fmt: skip
    # Row i of a tile: head i % GROUP of the group, token i // GROUP of the program's tokens.
    TOKENS: tl.constexpr = BLOCK_M // GROUP
    token0 = (tl.num_programs(0) - 1 - tl.program_id(0)) * TOKENS
    shared = tl.program_id(1)
    i = tl.arange(0, BLOCK_M)
    token = token0 + i // GROUP
    d = tl.arange(0, D)
    place = ((shared * GROUP + i % GROUP) * S + token)[:, None] * D + d[None, :]
    q = tl.load(q_ptr + place, mask=token[:, None] < S, other=0.0)
    k_ptr += shared * S * D
    v_ptr += shared * S * D
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    end = min(token0 + TOKENS, S) if CAUSAL else S
    for start in range(0, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        inside = cols[:, None] < S
        tile = cols[:, None] * D + d[None, :]
        k = tl.load(k_ptr + tile, mask=inside, other=0.0, eviction_policy=EVICT)
        scores = tl.dot(q, tl.trans(k))
        if start + BLOCK_N > (token0 if CAUSAL else S):  # some key is out of some row's sight
            seen = cols[None, :] <= (token[:, None] if CAUSAL else S - 1)
            scores = tl.where(seen, scores, float("-inf"))
        new_peak = tl.maximum(peak, scale * tl.max(scores, axis=1))
        weights = tl.exp2(scale * scores - new_peak[:, None])
        decay = tl.exp2(peak - new_peak)
        total = total * decay + tl.sum(weights, axis=1)
        v = tl.load(v_ptr + tile, mask=inside, other=0.0, eviction_policy=EVICT)
        acc = tl.dot(weights.to(v.dtype), v, acc * decay[:, None])
        peak = new_peak
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + place, out, mask=token[:, None] < S)


def valid(params, shape):
    """The heads of a group divide a tile."""
    group = shape["H"] // shape["KV"]
    m, n = params["BLOCK_M"], params["BLOCK_N"]
    return m % group == 0 and fits(shape, m, n, params["num_warps"], params["num_stages"])


def kernel(q, k, v, causal, *, BLOCK_M=64, BLOCK_N=64, EVICT="", num_warps=4, num_stages=2):
    B, H, S, D = q.shape
    KV = k.shape[1]
    out = torch.empty_like(q)
    packed_kernel[(triton.cdiv(S, BLOCK_M * KV // H), B * KV)](
        q, k, v, out, S, D**-0.5 * 1.4426950408889634, H // KV, D, causal, BLOCK_M, BLOCK_N, EVICT,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
