"""Asks the cache, load by load, to keep what it will read again.

Looks like: L2 persistence
Problem: gated
Runs on: cuda, interpreter
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gate(x, w, out, N, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    inside = column < N
    weight = tl.load(w + column, mask=inside, eviction_policy="evict_last")
    value = tl.load(x + row * N + column, mask=inside, eviction_policy="evict_first")
    gated = value * weight + 0.5
    tl.store(out + row * N + column, tl.where(gated <= 0, 0.0, gated), mask=inside)


def kernel(x, w):
    out = torch.empty_like(x)
    M, N = x.shape
    gate[(M,)](x, w, out, N, BLOCK=triton.next_power_of_2(N))
    return out
