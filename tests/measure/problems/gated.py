"""Elementwise, with zeros and ones of its own among the outputs."""

import torch

HELD_OUT_SHAPES = [{"M": 7, "N": 130}]


def inputs(M=4096, N=4096, device="cuda"):
    return torch.randn(M, N, device=device), torch.randn(N, device=device)


def reference(x, w):
    return torch.relu(x * w + 0.5)
