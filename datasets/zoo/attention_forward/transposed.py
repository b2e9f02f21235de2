"""Everything on its side: scores as keys by queries, softmax down the columns, D by queries out."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_forward.problem import SHAPES, TOLERANCE, fits, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "QUERIES": [16, 32, 64, 128],
    "KEYS": [16, 32, 64, 128],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def columns_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, GROUP, S, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    query = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)[None, :]
    d = tl.arange(0, D)
    q_at = (head * S + query) * D + d[:, None]  # D x QUERIES
    q = tl.load(q_ptr + q_at, mask=query < S, other=0.0)
    acc = tl.zeros((D, QUERIES), dtype=tl.float32)
    norm = tl.zeros((1, QUERIES), dtype=tl.float32)
    high = tl.full((1, QUERIES), float("-inf"), dtype=tl.float32)
    end = S
    if CAUSAL:
        end = tl.minimum(S, (tl.program_id(0) + 1) * QUERIES)
    for first in range(0, end, KEYS):
        key = first + tl.arange(0, KEYS)
        k_at = (head // GROUP * S + key[:, None]) * D + d[None, :]  # KEYS x D
        v_at = (head // GROUP * S + key[None, :]) * D + d[:, None]  # D x KEYS
        k = tl.load(k_ptr + k_at, mask=key[:, None] < S, other=0.0)
        v = tl.load(v_ptr + v_at, mask=key[None, :] < S, other=0.0)
        scores = tl.dot(k, q) * scale
        hidden = key[:, None] >= S
        if CAUSAL:
            hidden |= key[:, None] > query
        scores = tl.where(hidden, float("-inf"), scores)
        higher = tl.maximum(high, tl.max(scores, axis=0, keep_dims=True))
        weights = tl.exp2(scores - higher)
        fade = tl.exp2(high - higher)
        norm = norm * fade + tl.sum(weights, axis=0, keep_dims=True)
        acc = tl.dot(v, weights.to(v.dtype), acc * fade)
        high = higher
    tl.store(out_ptr + q_at, (acc / norm).to(out_ptr.dtype.element_ty), mask=query < S)


def valid(params, shape):
    """Tiles fit; D rows of the transposed accumulator give each warp 16 at the least."""
    m, n, warps = params["QUERIES"], params["KEYS"], params["num_warps"]
    return warps * 4 <= shape["D"] and fits(shape, m, n, warps, params["num_stages"])


def kernel(q, k, v, causal, *, QUERIES=64, KEYS=64, num_warps=4, num_stages=2):
    B, H, S, D = q.shape
    out = torch.empty_like(q)
    columns_kernel[(triton.cdiv(S, QUERIES), B * H)](
        q, k, v, out, H // k.shape[1], S, D**-0.5 * 1.4426950408889634, D, causal, QUERIES, KEYS,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
