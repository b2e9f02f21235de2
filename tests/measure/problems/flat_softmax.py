"""Outputs that are small against the tolerance: a constant is close to all of them."""

import torch

TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def inputs(M=1024, N=4096, device="cuda"):
    return (torch.randn(M, N, device=device),)


def reference(x):
    return torch.softmax(x, dim=-1)
