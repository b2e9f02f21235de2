"""Planes enlarged R times in both directions, each element repeated."""

import torch

KIND = "layout"
SHAPES = [
    {"C": 1024, "H": 64, "W": 64, "R": 2, "dtype": "float16"},
    {"C": 256, "H": 128, "W": 128, "R": 2, "dtype": "float32"},
    {"C": 3, "H": 333, "W": 517, "R": 4, "dtype": "float32"},
    {"C": 4096, "H": 16, "W": 16, "R": 2, "dtype": "bfloat16"},
    {"C": 64, "H": 61, "W": 43, "R": 3, "dtype": "float16"},
    {"C": 1, "H": 512, "W": 512, "R": 8, "dtype": "bfloat16"},
    {"C": 512, "H": 7, "W": 7, "R": 2, "dtype": "float32"},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(C=1024, H=64, W=64, R=2, dtype=torch.float16, device="cuda"):
    return torch.randn(C, H, W, dtype=dtype, device=device), R


def reference(x, factor):
    return x.repeat_interleave(factor, dim=1).repeat_interleave(factor, dim=2)
