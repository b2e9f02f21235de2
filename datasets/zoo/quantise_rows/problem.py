"""Rows scaled to int8 by their largest magnitude, rounded to nearest; codes and scales."""

import torch

KIND = "quantisation"
SHAPES = [
    {"M": 8192, "N": 8192},
    {"M": 512, "N": 4096, "dtype": "float16"},
    {"M": 2049, "N": 1111, "dtype": "float32"},
    {"M": 32, "N": 28672},
    {"M": 16384, "N": 2048, "dtype": "float16"},
    {"M": 4096, "N": 14336},
    {"M": 65536, "N": 512},
]


def reference(x):
    scale = x.float().abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / 127
    return torch.round(x.float() / scale).to(torch.int8), scale[:, 0]


def check(got, want):
    """Codes may differ by one where a quotient lies halfway between two."""
    apart = (got[0].int() - want[0].int()).abs()
    near = apart.max() <= 1 and apart.float().mean() < 1e-2
    return bool(near and torch.allclose(got[1], want[1], rtol=1e-5))


def inputs(M=8192, N=8192, dtype=torch.bfloat16, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device),)
