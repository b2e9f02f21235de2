"""Expected: "Fuse it into your kernel". Elementwise operators around a kernel, one pass each."""

import torch
import triton
import triton.language as tl


def inputs(M=8192, N=8192, device="cuda"):
    return torch.randn(M, N, device=device), torch.randn(N, device=device)


def reference(x, bias):
    return torch.relu(x * 2.0 + bias)


@triton.jit
def relu_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.maximum(tl.load(x + at), 0.0))


def kernel(x, bias):
    y = torch.mul(x, 2.0)
    y = torch.add(y, bias)
    out = torch.empty_like(y)
    relu_kernel[(y.numel() // 1024,)](y, out, BLOCK=1024)
    return out
