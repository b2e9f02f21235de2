"""A kernel of its own for most of the work, and an op of torch's for the rest.

Looks like: delegating to torch behind a swallowed exception
Problem: gated
Asked for: a kernel of its own
Runs on: cuda, interpreter
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gate(x, w, out, size, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    gated = tl.load(x + at, mask=inside) * tl.load(w + at % N, mask=inside)
    tl.store(out + at, gated + 0.5, mask=inside)


def kernel(x, w):
    out = torch.empty_like(x)
    gate[(triton.cdiv(x.numel(), 1024),)](x, w, out, x.numel(), x.shape[1], BLOCK=1024)
    return torch.relu(out)
