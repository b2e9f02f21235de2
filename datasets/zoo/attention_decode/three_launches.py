"""The naive way: scores to memory, their softmax, then weighted values, some columns a program."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_decode.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_S": [16, 32, 64, 128],
    "BLOCK_V": [64, 128, 256],
    "COLUMNS": [16, 32, 64],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 3],
}


@triton.jit
def scores_kernel(
    q_ptr, k_ptr, s_ptr, GROUP, S, scale, D: tl.constexpr, BLOCK_S: tl.constexpr
):  # fmt: skip
    head = tl.program_id(1)
    rows = tl.program_id(0) * BLOCK_S + tl.arange(0, BLOCK_S)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + head * D + d).to(tl.float32)
    tile = (head // GROUP * S + rows[:, None]) * D + d[None, :]
    k = tl.load(k_ptr + tile, mask=rows[:, None] < S, other=0.0).to(tl.float32)
    tl.store(s_ptr + head * S + rows, tl.sum(q[None, :] * k, axis=1) * scale, mask=rows < S)


@triton.jit
def softmax_kernel(s_ptr, S, BLOCK: tl.constexpr):
    row = s_ptr + tl.program_id(0) * S
    i = tl.arange(0, BLOCK)
    s = tl.load(row + i, mask=i < S, other=float("-inf"))
    e = tl.exp(s - tl.max(s, axis=0))
    tl.store(row + i, e / tl.sum(e, axis=0), mask=i < S)


@triton.jit
def values_kernel(
    s_ptr, v_ptr, out_ptr, GROUP, S,
    D: tl.constexpr, BLOCK_V: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    cols = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    acc = tl.zeros((BLOCK_V, COLUMNS), dtype=tl.float32)
    for start in range(0, S, BLOCK_V):
        rows = start + tl.arange(0, BLOCK_V)
        w = tl.load(s_ptr + head * S + rows, mask=rows < S, other=0.0)
        tile = (head // GROUP * S + rows[:, None]) * D + cols[None, :]
        acc += w[:, None] * tl.load(v_ptr + tile, mask=rows[:, None] < S, other=0.0)
    out = tl.sum(acc, axis=0)
    tl.store(out_ptr + head * D + cols, out.to(out_ptr.dtype.element_ty))


def valid(params, shape):
    """Two to 128 elements of each tile a thread."""
    threads = 32 * params["num_warps"]
    tiles = params["BLOCK_S"] * shape["D"], params["BLOCK_V"] * params["COLUMNS"]
    return all(2 <= tile / threads <= 128 for tile in tiles)


def kernel(q, k, v, *, BLOCK_S=32, BLOCK_V=128, COLUMNS=32, num_warps=4, num_stages=3):
    B, H, D = q.shape
    KV, S = k.shape[1:3]
    scores = torch.empty((B * H, S), dtype=torch.float32, device=q.device)
    out = torch.empty_like(q)
    scores_kernel[(triton.cdiv(S, BLOCK_S), B * H)](
        q, k, scores, H // KV, S, D**-0.5, D, BLOCK_S, num_warps=num_warps
    )
    softmax_kernel[(B * H,)](scores, S, triton.next_power_of_2(S), num_warps=8)
    values_kernel[(D // COLUMNS, B * H)](
        scores, v, out, H // KV, S, D, BLOCK_V, COLUMNS, num_warps=num_warps, num_stages=num_stages
    )
    return out
