"""Triton: a block of queries a program, online softmax."""

import torch
import triton
import triton.language as tl

from solkit.datasets.languages.attention.problem import KIND, SHAPES, TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]

SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def attention(q, k, v, o, scale, S, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows, column = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, D)
    ahead = tl.program_id(1) * S * D
    at = ahead + rows[:, None] * D + column[None, :]
    queries = tl.load(q + at)
    keys = k + ahead + tl.arange(0, BLOCK_N)[None, :] * D + column[:, None]
    values = v + ahead + tl.arange(0, BLOCK_N)[:, None] * D + column[None, :]
    largest = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    result = tl.zeros((BLOCK_M, D), dtype=tl.float32)
    for _ in range(0, S, BLOCK_N):
        scores = tl.dot(queries, tl.load(keys)) * scale
        after = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp2(scores - after[:, None])
        shrunk = tl.exp2(largest - after)
        total = total * shrunk + tl.sum(weights, 1)
        result = tl.dot(weights.to(v.dtype.element_ty), tl.load(values), result * shrunk[:, None])
        largest = after
        keys += BLOCK_N * D
        values += BLOCK_N * D
    tl.store(o + at, (result / total[:, None]).to(o.dtype.element_ty))


def kernel(q, k, v, *, BLOCK_M=128, BLOCK_N=64, num_warps=4, num_stages=2):
    B, H, S, D = q.shape
    o = torch.empty_like(q)
    scale = D**-0.5 * 1.4426950408889634
    options = {"num_warps": num_warps, "num_stages": num_stages}
    attention[(S // BLOCK_M, B * H)](q, k, v, o, scale, S, D, BLOCK_M, BLOCK_N, **options)
    return o
