"""Expected: "fuse the two launches". Halves are widened to a copy in fp32 first."""

import torch
import triton
import triton.language as tl


def inputs(M=8192, N=8192, dtype=torch.float16, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device),)


def reference(x):
    return torch.softmax(x, 1)


@triton.jit
def widen_kernel(x, wide, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(wide + at, tl.load(x + at).to(tl.float32))


@triton.jit
def softmax_kernel(wide, out, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    row = tl.load(wide + at)
    row = tl.exp(row - tl.max(row))
    tl.store(out + at, (row / tl.sum(row)).to(tl.float16))


def kernel(x):
    wide = torch.empty(x.shape, device=x.device)
    out = torch.empty_like(x)
    widen_kernel[(x.numel() // 2048,)](x, wide, BLOCK=2048)
    softmax_kernel[(x.shape[0],)](wide, out, x.shape[1], num_warps=8)
    return out
