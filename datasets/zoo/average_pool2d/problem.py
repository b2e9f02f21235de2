"""Means over R x R windows without overlap, channels last; ragged edges are left out."""

import torch

KIND = "convolution"
SHAPES = [
    {"B": 16, "H": 112, "W": 112, "C": 64, "R": 2, "dtype": "float16"},
    {"B": 64, "H": 14, "W": 14, "C": 1024, "R": 2, "dtype": "bfloat16"},
    {"B": 64, "H": 7, "W": 7, "C": 2048, "R": 7, "dtype": "float16"},
    {"B": 4, "H": 256, "W": 256, "C": 32, "R": 4, "dtype": "float32"},
    {"B": 3, "H": 65, "W": 47, "C": 77, "R": 3, "dtype": "float32"},
    {"B": 1, "H": 1080, "W": 1920, "C": 3, "R": 8, "dtype": "float32"},
    {"B": 8, "H": 56, "W": 56, "C": 256, "R": 2, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-3}


def inputs(B=16, H=112, W=112, C=64, R=2, dtype=torch.float16, device="cuda"):
    return torch.randn(B, H, W, C, dtype=dtype, device=device), R


def reference(x, window):
    B, H, W, C = x.shape
    P, Q = H // window, W // window
    whole = x[:, : P * window, : Q * window].float()
    return whole.reshape(B, P, window, Q, window, C).mean(dim=(2, 4)).to(x.dtype)
