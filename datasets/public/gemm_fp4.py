"""A product of 4-bit matrices with a scale for 32 numbers and a bf16 result."""

from __future__ import annotations

import torch


def reference(a, b, a_scales, b_scales):
    """Return a b^T in bf16; two numbers of K share a byte, and 32 a power of two."""
    scales = (padded(scale).view(torch.float8_e8m0fnu) for scale in (a_scales, b_scales))
    return torch._scaled_mm(a, b.t(), *scales, out_dtype=torch.bfloat16)


def padded(scale):
    """Fill scales up to whole tiles of 128 rows and 4 columns, as PyTorch wants them."""
    rows, columns = scale.shape
    return torch.nn.functional.pad(scale, (0, -columns % 4, 0, -rows % 128))


def inputs(M=1024, N=1024, K=1024, device="cuda"):
    """Make random factors and exponents of scales."""
    a, b, a_scales, b_scales = (
        torch.randint(256, (rows, columns), dtype=torch.uint8, device=device)
        for columns in (K // 2, K // 32)
        for rows in (M, N)
    )
    return *(factor.view(torch.float4_e2m1fn_x2) for factor in (a, b)), a_scales, b_scales
