"""Group normalisation of images (batch, channels, pixels), with a weight and bias a channel."""

import torch
import torch.nn.functional as F

EPS = 1e-5
KIND = "norm"
SHAPES = [
    {"B": 2, "C": 64, "HW": 256, "G": 32, "dtype": "float32"},
    {"B": 64, "C": 1280, "HW": 64, "G": 32, "dtype": "float16"},
    {"B": 32, "C": 512, "HW": 1024, "G": 32, "dtype": "float16"},
    {"B": 8, "C": 320, "HW": 4096, "G": 32, "dtype": "bfloat16"},
    {"B": 3, "C": 60, "HW": 2809, "G": 5, "dtype": "float32"},
    {"B": 16, "C": 96, "HW": 3136, "G": 6, "dtype": "float32"},
    {"B": 4, "C": 128, "HW": 65536, "G": 32, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}


def inputs(B=32, C=512, HW=1024, G=32, dtype=torch.float16, device="cuda"):
    weight, bias = (torch.randn(C, dtype=dtype, device=device) for _ in range(2))
    return torch.randn(B, C, HW, dtype=dtype, device=device), weight, bias, G


def reference(x, weight, bias, groups):
    return F.group_norm(x, groups, weight, bias, EPS)
