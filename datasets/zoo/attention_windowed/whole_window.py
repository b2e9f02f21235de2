"""Small windows in one piece: all keys that a tile of rows sees, and a plain softmax."""

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
    "TILES": [1, 2, 4, 8],
    "RECIPROCAL": [False, True],
    "EVICT": ["", "evict_last"],
    "num_warps": [2, 4, 8, 16],
}


@triton.jit
def whole_window_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, S, W, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, WIDTH: tl.constexpr, TILES: tl.constexpr,
    RECIPROCAL: tl.constexpr, EVICT: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1) * S
    d = tl.arange(0, D)
    for tile in range(TILES):
        row0 = (tl.program_id(0) * TILES + tile) * BLOCK_M
        rows = row0 + tl.arange(0, BLOCK_M)
        cols = row0 - W + 1 + tl.arange(0, WIDTH)
        inside = (cols >= 0) & (cols < S)
        mine = (head + rows[:, None]) * D + d[None, :]
        keys = (head + cols[None, :]) * D + d[:, None]
        values = (head + cols[:, None]) * D + d[None, :]
        q = tl.load(q_ptr + mine, mask=rows[:, None] < S, other=0.0)
        k = tl.load(k_ptr + keys, mask=inside[None, :], other=0.0, eviction_policy=EVICT)
        v = tl.load(v_ptr + values, mask=inside[:, None], other=0.0, eviction_policy=EVICT)
        seen = inside[None, :] & (cols[None, :] <= rows[:, None])
        seen = seen & (cols[None, :] > rows[:, None] - W)
        scores = tl.where(seen, tl.dot(q, k) * scale, -1e30)
        weights = tl.exp2(scores - tl.max(scores, axis=1)[:, None])
        total = tl.sum(weights, axis=1)[:, None]
        out = tl.dot(weights.to(v.dtype), v)
        out = out * (1.0 / total) if RECIPROCAL else out / total
        tl.store(out_ptr + mine, out.to(out_ptr.dtype.element_ty), mask=rows[:, None] < S)


def valid(params, shape):
    """The keys of a whole window fit in shared memory, their scores in registers."""
    m = params["BLOCK_M"]
    width = triton.next_power_of_2(m + shape["W"] - 1)
    return fits(shape, m, width, params["num_warps"], 1)


def kernel(
    q, k, v, window, *,
    BLOCK_M=16, TILES=1, RECIPROCAL=False, EVICT="", num_warps=4,
):  # fmt: skip
    B, H, S, D = q.shape
    out = torch.empty_like(q)
    width = triton.next_power_of_2(BLOCK_M + window - 1)
    whole_window_kernel[(triton.cdiv(S, BLOCK_M * TILES), B * H)](
        q, k, v, out, S, window, D**-0.5 * LOG2_E, D, BLOCK_M, width, TILES, RECIPROCAL,
        EVICT, num_warps=num_warps,
    )  # fmt: skip
    return out
