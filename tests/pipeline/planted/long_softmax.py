"""A limit on registers that the row does not fit in."""

import torch
import triton
import triton.language as tl

PLANTED = "spills"


def inputs(M=4096, N=16384, device="cuda"):
    return (torch.randn(M, N, device=device),)


def reference(x):
    return torch.softmax(x, -1)


@triton.jit
def softmax_kernel(x, out, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    value = tl.load(x + at)
    value = tl.exp(value - tl.max(value, 0))
    tl.store(out + at, value / tl.sum(value, 0))


def kernel(x, *, PLANT=False, num_warps=8):
    out = torch.empty_like(x)
    limit = {"maxnreg": 32} if PLANT else {}
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], num_warps=num_warps, **limit)
    return out
