"""TMA tiles; rows that see most keys start first; only the diagonal's blocks are masked."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.datasets.zoo.attention_long.problem import SHAPES, TOLERANCE, fits, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [32, 64, 128],
    "HEADS_TOGETHER": [False, True],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def fold(acc, total, peak, scores, v):
    """Take scores, in powers of two, and their values into the running sums."""
    new_peak = tl.maximum(peak, tl.max(scores, axis=1))
    weights = tl.exp2(scores - new_peak[:, None])
    decay = tl.exp2(peak - new_peak)
    acc = tl.dot(weights.to(v.dtype), v, acc * decay[:, None])
    return acc, total * decay + tl.sum(weights, axis=1), new_peak


@triton.jit
def longest_kernel(
    q_tiles, k_tiles, v_tiles, out_tiles, GROUP, S, scale, HEADS_TOGETHER: tl.constexpr,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    turn = tl.program_id(1 if HEADS_TOGETHER else 0)
    head = tl.program_id(0 if HEADS_TOGETHER else 1)
    m0 = (tl.cdiv(S, BLOCK_M) - 1 - turn) * BLOCK_M
    m = m0 + tl.arange(0, BLOCK_M)
    q = q_tiles.load([head, m0, 0]).reshape(BLOCK_M, D)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    full = m0 // BLOCK_N * BLOCK_N
    for n in range(0, full, BLOCK_N):
        k = k_tiles.load([head // GROUP, n, 0]).reshape(BLOCK_N, D)
        v = v_tiles.load([head // GROUP, n, 0]).reshape(BLOCK_N, D)
        acc, total, peak = fold(acc, total, peak, tl.dot(q, k.T) * scale, v)
    for n in range(full, min(m0 + BLOCK_M, S), BLOCK_N):
        k = k_tiles.load([head // GROUP, n, 0]).reshape(BLOCK_N, D)
        v = v_tiles.load([head // GROUP, n, 0]).reshape(BLOCK_N, D)
        seen = n + tl.arange(0, BLOCK_N)[None, :] <= m[:, None]
        scores = tl.where(seen, tl.dot(q, k.T) * scale, float("-inf"))
        acc, total, peak = fold(acc, total, peak, scores, v)
    out = (acc / total[:, None]).to(out_tiles.dtype)
    out_tiles.store([head, m0, 0], out.reshape(1, BLOCK_M, D))


def valid(params, shape):
    """Tiles fit, with that of the result."""
    m, n, warps = params["BLOCK_M"], params["BLOCK_N"], params["num_warps"]
    return fits(shape, m, n, warps, params["num_stages"]) and fits(shape, 2 * m, n, 2 * warps, 2)


def kernel(
    q, k, v, *, BLOCK_M=128, BLOCK_N=64, HEADS_TOGETHER=True, num_warps=8, num_stages=3
):  # fmt: skip
    B, H, S, D = q.shape
    KV = k.shape[1]
    out = torch.empty_like(q)

    def tiles(x, heads, block):
        return TensorDescriptor.from_tensor(x.view(B * heads, S, D), [1, block, D])

    grid = (triton.cdiv(S, BLOCK_M), B * H)
    longest_kernel[grid[::-1] if HEADS_TOGETHER else grid](
        tiles(q, H, BLOCK_M), tiles(k, KV, BLOCK_N), tiles(v, KV, BLOCK_N), tiles(out, H, BLOCK_M),
        H // KV, S, D**-0.5 * 1.4426950408889634, HEADS_TOGETHER, D, BLOCK_M, BLOCK_N,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
