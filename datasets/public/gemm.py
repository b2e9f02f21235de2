"""A product of narrow matrices with a bf16 result, as GEMM tuners time it."""

from __future__ import annotations

import torch


def reference(a, b):
    """Return a b^T in bf16, summed in fp32; a is (B, M, K), b is (B, N, K)."""
    return torch.matmul(a.float(), b.float().transpose(-1, -2)).bfloat16()


def inputs(B=1, M=1024, N=1024, K=1024, dtype=torch.bfloat16, device="cuda"):
    """Make random factors of a dtype; integers cover the range of 8 bits."""
    if dtype is torch.int8:
        draw = [torch.randint(-127, 128, size, device=device) for size in ((B, M, K), (B, N, K))]
    else:
        draw = [torch.randn(size, device=device) for size in ((B, M, K), (B, N, K))]
    return tuple(factor.to(dtype) for factor in draw)
