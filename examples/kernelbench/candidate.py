"""Residual addition and layer normalisation in one Triton kernel; the problem: reference.py."""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def add_layernorm_kernel(
    x_ptr, residual_ptr, weight_ptr, bias_ptr, out_ptr, N, eps, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * N  # 64 bits: rows * N may exceed 2**31 elements
    cols = tl.arange(0, BLOCK)
    mask = cols < N

    x = tl.load(x_ptr + row + cols, mask=mask, other=0.0)
    x += tl.load(residual_ptr + row + cols, mask=mask, other=0.0)
    # Asked for before the reductions, whose wait then hides them. They stay in L2.
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0)
    bias = tl.load(bias_ptr + cols, mask=mask, other=0.0)

    # The row is in registers, so the variance may take its second look for free: no
    # cancellation, as E[x^2] - E[x]^2 would have it.
    centred = tl.where(mask, x - tl.sum(x, axis=0) / N, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / N + eps)
    tl.store(out_ptr + row + cols, centred * scale * weight + bias, mask=mask)


class ModelNew(nn.Module):
    """Same parameters and result as `Model`; x and residual are read once, nothing between."""

    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x, residual):
        """Add and normalise contiguous tensors of shape (..., features)."""
        features = x.shape[-1]
        out = torch.empty_like(x)
        add_layernorm_kernel[(x.numel() // features,)](
            x,
            residual,
            self.norm.weight,
            self.norm.bias,
            out,
            features,
            self.norm.eps,
            BLOCK=triton.next_power_of_2(features),
            num_warps=4,
        )
        return out
