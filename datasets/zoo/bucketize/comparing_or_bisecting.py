"""Bisection of a block of numbers; where edges are few, each number is compared with all."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.bucketize.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [32, 64, 128, 256, 512, 1024, 2048],
    "COMPARE": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def search_kernel(
    x_ptr, edges_ptr, out_ptr, N, count,
    HALF: tl.constexpr, WIDE: tl.constexpr, COMPARE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < N, other=0.0).to(tl.float32)
    if COMPARE:
        below = tl.zeros((BLOCK,), dtype=tl.int32)
        for start in range(0, count, WIDE):
            i = start + tl.arange(0, WIDE)
            edge = tl.load(edges_ptr + i, mask=i < count, other=float("inf"))
            below += tl.sum((edge[None, :] < x[:, None]).to(tl.int32), axis=1)
    else:
        below = tl.zeros((BLOCK,), dtype=tl.int32)
        step = HALF
        while step > 0:
            tried = below + step
            edge = tl.load(edges_ptr + tried - 1, mask=tried <= count, other=float("inf"))
            below = tl.where(edge < x, tried, below)
            step = step // 2
    tl.store(out_ptr + at, below, mask=at < N)


def valid(params, shape):
    """One to 16 numbers a thread, one to eight where all of at most 1,024 edges are compared."""
    each = params["BLOCK"] / (32 * params["num_warps"])
    few = shape["EDGES"] <= 1024 and each <= 8
    return 1 <= each <= 16 and (few or not params["COMPARE"])


def kernel(x, edges, *, BLOCK=512, COMPARE=False, num_warps=4):
    N, count = x.numel(), edges.numel()
    out = torch.empty(N, dtype=torch.int32, device=x.device)
    half = 1 << count.bit_length() - 1
    search_kernel[(triton.cdiv(N, BLOCK),)](
        x, edges, out, N, count, half, 16, COMPARE, BLOCK, num_warps=num_warps
    )
    return out
