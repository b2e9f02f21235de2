"""Without a memory: every query meets all keys before it, as in attention but for the softmax."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.linear_attention.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [16, 32, 64, 128],
    "FADE_KEYS": [False, True],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def quadratic_kernel(
    q_ptr, k_ptr, v_ptr, fade_ptr, out_ptr, H, S,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, FADE_KEYS: tl.constexpr,
):  # fmt: skip
    row0 = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1)
    fade = tl.load(fade_ptr + head % H)
    q_block = tl.make_block_ptr(
        q_ptr + head * S * D, (S, D), (D, 1), (row0, 0), (BLOCK_M, D), (1, 0)
    )
    k_block = tl.make_block_ptr(k_ptr + head * S * D, (D, S), (1, D), (0, 0), (D, BLOCK_N), (0, 1))
    v_block = tl.make_block_ptr(v_ptr + head * S * D, (S, D), (D, 1), (0, 0), (BLOCK_N, D), (1, 0))
    q = tl.load(q_block, boundary_check=(0,), padding_option="zero")
    rows = row0 + tl.arange(0, BLOCK_M)
    acc = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    for start in range(0, min(row0 + BLOCK_M, S), BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_block, boundary_check=(1,), padding_option="zero")
        v = tl.load(v_block, boundary_check=(0,), padding_option="zero")
        apart = rows[:, None] - cols[None, :]
        scores = tl.dot(q, k)
        if FADE_KEYS and start + BLOCK_N <= row0:  # one factor a key, one a row
            scores *= tl.exp((row0 - cols) * fade)[None, :] * tl.exp((rows - row0) * fade)[:, None]
        else:
            scores = tl.where(apart >= 0, scores * tl.exp(tl.maximum(apart, 0) * fade), 0.0)
        acc = tl.dot(scores.to(v.dtype), v, acc)
        k_block = tl.advance(k_block, (0, BLOCK_N))
        v_block = tl.advance(v_block, (BLOCK_N, 0))
    at = (head * S + rows[:, None]) * D + tl.arange(0, D)[None, :]
    tl.store(out_ptr + at, acc.to(out_ptr.dtype.element_ty), mask=rows[:, None] < S)


def valid(params, shape):
    """Tiles fit in registers and shared memory."""
    m, n, D = params["BLOCK_M"], params["BLOCK_N"], shape["D"]
    item = 4 if shape.get("dtype") == "float32" else 2
    shared = (m + 2 * params["num_stages"] * n) * D * item
    return shared <= 227 * 1024 and 4 <= m * (n + D) / (32 * params["num_warps"]) <= 256


def kernel(q, k, v, fade, *, BLOCK_M=64, BLOCK_N=64, FADE_KEYS=False, num_warps=4, num_stages=2):
    B, H, S, D = q.shape
    out = torch.empty_like(q)
    quadratic_kernel[(triton.cdiv(S, BLOCK_M), B * H)](
        q, k, v, fade, out, H, S, D, BLOCK_M, BLOCK_N, FADE_KEYS,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
