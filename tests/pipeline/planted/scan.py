"""Sums along a row that one warp holds."""

import torch
import triton
import triton.language as tl

PLANTED = "spills"


def inputs(M=4096, N=16384, device="cuda"):
    return (torch.randn(M, N, device=device),)


def reference(x):
    return x.cumsum(-1)


@triton.jit
def scan_kernel(x, out, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + at, tl.cumsum(tl.load(x + at), 0))


def kernel(x, *, PLANT=False):
    out = torch.empty_like(x)
    scan_kernel[(x.shape[0],)](x, out, x.shape[1], num_warps=1 if PLANT else 16)
    return out
