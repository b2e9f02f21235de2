"""Sixty-four running sums in a thread, under a limit on registers."""

import torch
import triton
import triton.language as tl

PLANTED = "spills"


def inputs(N=1 << 20, TERMS=64, device="cuda"):
    return torch.randn(N, device=device), torch.randn(TERMS, device=device)


def reference(x, w):
    return sum(w[i] * torch.sin((i + 1) * x) for i in range(w.numel()))


@triton.jit
def series_kernel(x, w, out, TERMS: tl.constexpr, LANES: tl.constexpr):
    at = tl.program_id(0) * LANES + tl.arange(0, LANES)
    term = tl.arange(0, TERMS)
    angle = tl.load(x + at)[:, None] * (term + 1)[None, :]
    value = tl.sin(angle) * tl.load(w + term)[None, :]
    value = value + tl.flip(value, 1) * angle
    tl.store(out + at, tl.sum(value, 1))


def kernel(x, w, *, PLANT=False, LANES=128, num_warps=4):
    out = torch.empty_like(x)
    limit = {"maxnreg": 40} if PLANT else {}
    series_kernel[(x.numel() // LANES,)](x, w, out, w.numel(), LANES, num_warps=num_warps, **limit)
    return out
