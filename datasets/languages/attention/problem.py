"""Attention without a mask, heads before the sequence."""

import torch

KIND = "attention"
SHAPES = [{"B": 4, "H": 16, "S": 2048, "D": 64}]
TOLERANCE = {"rtol": 2e-2, "atol": 1e-2}


def inputs(B=4, H=16, S=2048, D=64, device="cuda"):
    shape = (B, H, S, D)
    return tuple(torch.randn(shape, dtype=torch.bfloat16, device=device) for _ in range(3))


def reference(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)
