"""Online softmax from the window's first block to the diagonal, with one mask for every block."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_windowed.problem import (
    LOG2_E,
    SHAPES,
    TOLERANCE,
    fits,
    inputs,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [16, 32, 64, 128],
    "HEADS_FIRST": [False, True],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def window_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, S, W, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEADS_FIRST: tl.constexpr,
):  # fmt: skip
    row0 = tl.program_id(1 if HEADS_FIRST else 0) * BLOCK_M
    head = tl.program_id(0 if HEADS_FIRST else 1) * S
    rows = row0 + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    mine = (head + rows[:, None]) * D + d[None, :]
    q = tl.load(q_ptr + mine, mask=rows[:, None] < S, other=0.0)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), -1e30, dtype=tl.float32)  # a row may see nothing of its first block
    first = tl.maximum(row0 - W + 1, 0) // BLOCK_N * BLOCK_N
    for start in range(first, min(row0 + BLOCK_M, S), BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        tile = (head + cols[:, None]) * D + d[None, :]
        k = tl.load(k_ptr + tile, mask=cols[:, None] < S, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        back = rows[:, None] - cols[None, :]
        scores = tl.where((back >= 0) & (back < W), scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_peak[:, None])
        decay = tl.exp2(peak - new_peak)
        total = total * decay + tl.sum(weights, axis=1)
        v = tl.load(v_ptr + tile, mask=cols[:, None] < S, other=0.0)
        acc = tl.dot(weights.to(v.dtype), v, acc * decay[:, None])
        peak = new_peak
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + mine, out, mask=rows[:, None] < S)


def valid(params, shape):
    m, n = params["BLOCK_M"], params["BLOCK_N"]
    return fits(shape, m, n, params["num_warps"], params["num_stages"])


def kernel(
    q, k, v, window, *, BLOCK_M=64, BLOCK_N=64, HEADS_FIRST=False, num_warps=4, num_stages=2
):
    B, H, S, D = q.shape
    out = torch.empty_like(q)
    grid = (triton.cdiv(S, BLOCK_M), B * H)
    window_kernel[grid[::-1] if HEADS_FIRST else grid](
        q, k, v, out, S, window, D**-0.5 * LOG2_E, D, BLOCK_M, BLOCK_N, HEADS_FIRST,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
