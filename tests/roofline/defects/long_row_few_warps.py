"""Expected: "spills". A row of 32,768 in the registers of four warps."""

import torch
import triton
import triton.language as tl


def inputs(M=2048, N=32768, device="cuda"):
    return (torch.randn(M, N, device=device),)


def reference(x):
    return torch.softmax(x, 1)


@triton.jit
def softmax_kernel(x, out, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    row = tl.load(x + at)
    row = tl.exp(row - tl.max(row))
    tl.store(out + at, row / tl.sum(row))


def kernel(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], num_warps=4)
    return out
