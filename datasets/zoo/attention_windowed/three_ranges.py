"""Three loops: the window's left edge with a mask, what all rows see without, the diagonal with."""

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
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [16, 32, 64, 128],
    "REVERSED": [False, True],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def fold(
    acc, total, peak, q, k_ptr, v_ptr, rows, first, last, S, W, scale,
    D: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Fold the keys from `first` to `last` into the running sum, its weights and their peak."""
    d = tl.arange(0, D)
    for start in range(first, last, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        tile = cols[:, None] * D + d[None, :]
        if MASKED:
            k = tl.load(k_ptr + tile, mask=cols[:, None] < S, other=0.0)
            v = tl.load(v_ptr + tile, mask=cols[:, None] < S, other=0.0)
        else:
            k = tl.load(k_ptr + tile)
            v = tl.load(v_ptr + tile)
        scores = tl.dot(q, k.T)
        if MASKED:
            seen = (cols[None, :] <= rows[:, None]) & (cols[None, :] > rows[:, None] - W)
            scores = tl.where(seen, scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1) * scale)
        weights = tl.exp2(scores * scale - new_peak[:, None])
        decay = tl.exp2(peak - new_peak)
        total = total * decay + tl.sum(weights, axis=1)
        acc = tl.dot(weights.to(v.dtype), v, acc * decay[:, None])
        peak = new_peak
    return acc, total, peak


@triton.jit
def three_ranges_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, S, W, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, REVERSED: tl.constexpr,
):  # fmt: skip
    row0 = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1) * S * D
    rows = row0 + tl.arange(0, BLOCK_M)
    mine = head + rows[:, None] * D + tl.arange(0, D)[None, :]
    q = tl.load(q_ptr + mine, mask=rows[:, None] < S, other=0.0)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    peak = tl.full((BLOCK_M,), -1e30, dtype=tl.float32)
    k_ptr += head
    v_ptr += head
    # Blocks between `left` and `right` are seen whole by every row of the tile.
    begin = tl.maximum(row0 - W + 1, 0) // BLOCK_N * BLOCK_N
    left = tl.cdiv(tl.maximum(row0 + BLOCK_M - W, 0), BLOCK_N) * BLOCK_N
    right = tl.maximum((row0 + 1) // BLOCK_N * BLOCK_N, begin)
    left = tl.minimum(left, right)
    end = tl.minimum(row0 + BLOCK_M, S)
    if REVERSED:  # the diagonal first: it sets the peak, which then seldom moves
        acc, total, peak = fold(
            acc, total, peak, q, k_ptr, v_ptr, rows, right, end, S, W, scale, D, BLOCK_N, True
        )
    acc, total, peak = fold(
        acc, total, peak, q, k_ptr, v_ptr, rows, begin, left, S, W, scale, D, BLOCK_N, True
    )
    acc, total, peak = fold(
        acc, total, peak, q, k_ptr, v_ptr, rows, left, right, S, W, scale, D, BLOCK_N, False
    )
    if not REVERSED:
        acc, total, peak = fold(
            acc, total, peak, q, k_ptr, v_ptr, rows, right, end, S, W, scale, D, BLOCK_N, True
        )
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + mine, out, mask=rows[:, None] < S)


def valid(params, shape):
    m, n = params["BLOCK_M"], params["BLOCK_N"]
    return fits(shape, m, n, params["num_warps"], params["num_stages"])


def kernel(q, k, v, window, *, BLOCK_M=64, BLOCK_N=64, REVERSED=False, num_warps=4, num_stages=2):
    B, H, S, D = q.shape
    out = torch.empty_like(q)
    three_ranges_kernel[(triton.cdiv(S, BLOCK_M), B * H)](
        q, k, v, out, S, window, D**-0.5 * LOG2_E, D, BLOCK_M, BLOCK_N, REVERSED,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
