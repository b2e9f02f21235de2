"""Expected: "fuse the two". A product of PyTorch's, whose result a kernel reads again."""

import torch
import triton
import triton.language as tl


def inputs(M=32768, N=4096, K=256, device="cuda"):
    x = torch.randn(M, K, device=device, dtype=torch.bfloat16)
    return x, torch.randn(K, N, device=device, dtype=torch.bfloat16)


def reference(x, w):
    return torch.relu(x @ w)


@triton.jit
def relu_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.maximum(tl.load(x + at), 0.0))


def kernel(x, w):
    y = x @ w
    out = torch.empty_like(y)
    relu_kernel[(y.numel() // 1024,)](y, out, BLOCK=1024)
    return out
