"""Tiles that the TMA unit copies; full blocks of keys first, then those that need a mask."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.datasets.zoo.attention_forward.problem import SHAPES, TOLERANCE, fits, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [16, 32, 64, 128],
    "EARLY_V": [False, True],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def fold(
    acc, total, peak, q, k_tiles, v_tiles, kv, rows, first, last, S, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr, BLOCK_N: tl.constexpr,
    EARLY_V: tl.constexpr,
):  # fmt: skip
    """Take the keys from `first` to `last` into the running sum, its weights and their peak."""
    for start in range(first, last, BLOCK_N):
        k = k_tiles.load([kv, start, 0]).reshape(BLOCK_N, D)
        if EARLY_V:
            v = v_tiles.load([kv, start, 0]).reshape(BLOCK_N, D)
        scores = tl.dot(q, k.T)
        if MASKED:
            cols = start + tl.arange(0, BLOCK_N)[None, :]
            seen = cols < S
            if CAUSAL:
                seen = seen & (cols <= rows[:, None])
            scores = tl.where(seen, scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1) * scale)
        weights = tl.exp2(scores * scale - new_peak[:, None])
        decay = tl.exp2(peak - new_peak)
        total = total * decay + tl.sum(weights, axis=1)
        if not EARLY_V:
            v = v_tiles.load([kv, start, 0]).reshape(BLOCK_N, D)
        acc = tl.dot(weights.to(v.dtype), v, acc * decay[:, None])
        peak = new_peak
    return acc, total, peak


@triton.jit
def attention_tma_kernel(
    q_tiles, k_tiles, v_tiles, out_tiles, GROUP, S, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    EARLY_V: tl.constexpr,
):  # fmt: skip
    row0 = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1)
    kv = head // GROUP  # batches lie one behind another, each a whole number of groups
    rows = row0 + tl.arange(0, BLOCK_M)
    q = q_tiles.load([head, row0, 0]).reshape(BLOCK_M, D)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    full = (row0 if CAUSAL else S) // BLOCK_N * BLOCK_N
    end = min(row0 + BLOCK_M, S) if CAUSAL else S
    acc, total, peak = fold(
        acc, total, peak, q, k_tiles, v_tiles, kv, rows, 0, full, S, scale,
        D, CAUSAL, False, BLOCK_N, EARLY_V,
    )  # fmt: skip
    acc, total, peak = fold(
        acc, total, peak, q, k_tiles, v_tiles, kv, rows, full, end, S, scale,
        D, CAUSAL, True, BLOCK_N, EARLY_V,
    )  # fmt: skip
    out = (acc / total[:, None]).to(out_tiles.dtype)
    out_tiles.store([head, row0, 0], out.reshape(1, BLOCK_M, D))


def valid(params, shape):
    """Tiles fit, with that of the result."""
    m, n, warps = params["BLOCK_M"], params["BLOCK_N"], params["num_warps"]
    return fits(shape, 2 * m, n, 2 * warps, params["num_stages"])


def kernel(q, k, v, causal, *, BLOCK_M=128, BLOCK_N=64, EARLY_V=False, num_warps=8, num_stages=3):
    B, H, S, D = q.shape
    KV = k.shape[1]
    out = torch.empty_like(q)

    def tiles(x, heads, block):
        return TensorDescriptor.from_tensor(x.view(B * heads, S, D), [1, block, D])

    attention_tma_kernel[(triton.cdiv(S, BLOCK_M), B * H)](
        tiles(q, H, BLOCK_M), tiles(k, KV, BLOCK_N), tiles(v, KV, BLOCK_N), tiles(out, H, BLOCK_M),
        H // KV, S, D**-0.5 * 1.4426950408889634, D, causal, BLOCK_M, BLOCK_N, EARLY_V,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
