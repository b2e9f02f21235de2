"""Expected: "one start every". A program for each row of 64 elements."""

import torch
import triton
import triton.language as tl


def inputs(M=2**20, N=64, dtype=torch.float16, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device),)


def reference(x):
    return torch.softmax(x, 1)


@triton.jit
def softmax_kernel(x, out, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    row = tl.load(x + at).to(tl.float32)
    row = tl.exp(row - tl.max(row))
    tl.store(out + at, (row / tl.sum(row)).to(tl.float16))


def kernel(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], num_warps=1)
    return out
