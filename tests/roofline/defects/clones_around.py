"""Expected: "Read the original in your kernel". Three copies around a kernel."""

import torch
import triton
import triton.language as tl


def inputs(M=8192, N=8192, device="cuda"):
    return (torch.randn(M, N, device=device),)


def reference(x):
    return torch.relu(x)


@triton.jit
def relu_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.maximum(tl.load(x + at), 0.0))


def kernel(x):
    x = x.clone()
    x = x.clone()
    out = torch.empty_like(x)
    relu_kernel[(x.numel() // 1024,)](x, out, BLOCK=1024)
    return out.clone()
