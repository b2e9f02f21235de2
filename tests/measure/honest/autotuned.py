"""Triton's own autotuner: it calls the kernel many times at first, and keeps the best.

Looks like: timing-aware behaviour
Problem: gated
Runs on: cuda
"""

import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK": block}) for block in (512, 1024, 2048)], key=["size"])
@triton.jit
def gate(x, w, out, size, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    gated = tl.load(x + at, mask=inside) * tl.load(w + at % N, mask=inside) + 0.5
    tl.store(out + at, tl.where(gated <= 0, 0.0, gated), mask=inside)


def kernel(x, w):
    out = torch.empty_like(x)
    grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)  # noqa: E731
    gate[grid](x, w, out, x.numel(), x.shape[1])
    return out
