"""Rotary position embedding: the two halves of each head turned by the token's angles."""

import torch

KIND = "elementwise"
SHAPES = [
    {"T": 8192, "H": 32, "D": 128, "dtype": "bfloat16"},
    {"T": 2048, "H": 8, "D": 128, "dtype": "float16"},
    {"T": 4096, "H": 16, "D": 64, "dtype": "float32"},
    {"T": 1, "H": 64, "D": 128, "dtype": "bfloat16"},
    {"T": 333, "H": 5, "D": 256, "dtype": "float16"},
    {"T": 16384, "H": 7, "D": 64, "dtype": "bfloat16"},
    {"T": 1021, "H": 24, "D": 32, "dtype": "float32"},
    {"T": 128, "H": 128, "D": 64, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def inputs(T=8192, H=32, D=128, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(T, H, D, dtype=dtype, device=device)
    angles = torch.rand(T, D // 2, device=device) * 6.28
    return x, angles.cos(), angles.sin()


def reference(x, cos, sin):
    low, high = x.float().chunk(2, dim=-1)
    cos, sin = cos[:, None, :], sin[:, None, :]
    return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=-1).to(x.dtype)
