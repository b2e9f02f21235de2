"""Sums of all later steps, along the middle axis of [B, T, C], as of rewards still to come."""

import torch

KIND = "scan"
SHAPES = [
    {"B": 16, "T": 4096, "C": 512, "dtype": "float32"},
    {"B": 64, "T": 1000, "C": 300, "dtype": "bfloat16"},
    {"B": 4, "T": 16384, "C": 64, "dtype": "float32"},
    {"B": 1, "T": 20011, "C": 1500, "dtype": "float16"},
    {"B": 256, "T": 512, "C": 1024, "dtype": "bfloat16"},
    {"B": 2000, "T": 100, "C": 33, "dtype": "float32"},
    {"B": 8, "T": 8192, "C": 1024, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}


def inputs(B=16, T=4096, C=512, dtype=torch.float32, device="cuda"):
    return (torch.randn(B, T, C, dtype=dtype, device=device),)


def reference(x):
    return x.float().flip(1).cumsum(1).flip(1).to(x.dtype)
