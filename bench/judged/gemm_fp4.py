"""A product of 4-bit matrices with a scale for 32 numbers and a bf16 result."""

from __future__ import annotations

import torch


def reference(a, b, a_scales, b_scales):
    """Return a b^T in bf16; two numbers of K share a byte."""
    return torch._scaled_mm(a, b.t(), a_scales, b_scales, out_dtype=torch.bfloat16)


def inputs(M=1024, N=1024, K=1024, device="cuda"):
    """Make random factors, and scales of one."""
    factors = [
        torch.randint(256, (rows, K // 2), dtype=torch.uint8, device=device) for rows in (M, N)
    ]
    scales = [torch.ones(rows, K // 32, device=device) for rows in (M, N)]
    return (
        *(factor.view(torch.float4_e2m1fn_x2) for factor in factors),
        *(scale.to(torch.float8_e8m0fnu) for scale in scales),
    )
