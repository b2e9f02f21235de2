"""As many programs as the GPU holds; each goes from tile to tile, short and long ones by turns."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_forward.problem import SHAPES, TOLERANCE, fits, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "PROGRAMS": [132, 264, 396, 528],  # one to four on each SM
    "FOLD": [False, True],
    "num_warps": [4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def attend_tile(
    q_ptr, k_ptr, v_ptr, out_ptr, block, S, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + d, mask=rows[:, None] < S, other=0.0)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    end = min((block + 1) * BLOCK_M, S) if CAUSAL else S
    for start in range(0, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        tile = cols[:, None] * D + d
        k = tl.load(k_ptr + tile, mask=cols[:, None] < S, other=0.0)
        limit = rows[:, None] if CAUSAL else S - 1
        scores = tl.where(cols <= limit, tl.dot(q, k.T) * scale, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_peak[:, None])
        decay = tl.exp2(peak - new_peak)
        total = tl.fma(total, decay, tl.sum(weights, axis=1))
        v = tl.load(v_ptr + tile, mask=cols[:, None] < S, other=0.0)
        acc = tl.dot(weights.to(v.dtype), v, acc * decay[:, None])
        peak = new_peak
    acc /= total[:, None]
    tl.store(out_ptr + rows[:, None] * D + d, acc.to(out_ptr.dtype.element_ty), rows[:, None] < S)


@triton.jit
def persistent_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, HEADS, GROUP, S, scale,
    D: tl.constexpr, CAUSAL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    FOLD: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(S, BLOCK_M)
    for tile in range(tl.program_id(0), HEADS * blocks, tl.num_programs(0)):
        head, block = tile // blocks, tile % blocks
        if FOLD:  # first, last, second, last but one …
            block = tl.where(block % 2 == 0, block // 2, blocks - 1 - block // 2)
        own, shared = head * S * D, head // GROUP * S * D
        attend_tile(
            q_ptr + own, k_ptr + shared, v_ptr + shared, out_ptr + own, block, S, scale,
            D, CAUSAL, BLOCK_M, BLOCK_N,
        )  # fmt: skip


def valid(params, shape):
    """Every program has a tile, and the order of tiles matters to causal attention alone."""
    m, n = params["BLOCK_M"], params["BLOCK_N"]
    tiles = shape["B"] * shape["H"] * -(-shape["S"] // m)
    if params["PROGRAMS"] > max(132, tiles) or (params["FOLD"] and not shape["causal"]):
        return False
    return fits(shape, m, n, params["num_warps"], params["num_stages"])


def kernel(
    q, k, v, causal, *,
    BLOCK_M=64, BLOCK_N=64, PROGRAMS=132, FOLD=False, num_warps=4, num_stages=2,
):  # fmt: skip
    B, H, S, D = q.shape
    out = torch.empty_like(q)
    persistent_kernel[(PROGRAMS,)](
        q, k, v, out, B * H, H // k.shape[1], S, D**-0.5 * 1.4426950408889634, D, causal,
        BLOCK_M, BLOCK_N, FOLD, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
