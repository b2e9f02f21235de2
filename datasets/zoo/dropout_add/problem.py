"""Dropout with a given mask of bytes, scaled, and a residual added."""

import torch

KIND = "elementwise"
SHAPES = [
    {"N": 33554432},
    {"N": 1048576, "dtype": "float32"},
    {"N": 5000011, "dtype": "float16"},
    {"N": 16777216, "dtype": "float32"},
    {"N": 12582912, "dtype": "float16"},
    {"N": 2097153},
]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-3}
KEEP = 0.9


def reference(x, residual, mask):
    return (x.float() * mask / KEEP + residual.float()).to(x.dtype)


def inputs(N=33554432, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(N, dtype=dtype, device=device)
    residual = torch.randn(N, dtype=dtype, device=device)
    return x, residual, (torch.rand(N, device=device) < KEEP).to(torch.uint8)
