"""A matrix times a number plus a number: one read, one write."""

import torch

KIND = "elementwise"
SHAPES = [{"M": 8192, "N": 8192}]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def inputs(M=8192, N=8192, device="cuda"):
    return (torch.randn(M, N, dtype=torch.bfloat16, device=device),)


def reference(x):
    return x * 1.5 + 0.25
