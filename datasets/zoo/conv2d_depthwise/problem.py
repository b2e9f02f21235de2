"""Depthwise 3 x 3 convolution of images with channels last, padded with zeros."""

import torch
import torch.nn.functional as F

KIND = "convolution"
SHAPES = [
    {"B": 16, "H": 56, "W": 56, "C": 256, "dtype": "bfloat16"},
    {"B": 32, "H": 14, "W": 14, "C": 512, "dtype": "float16"},
    {"B": 4, "H": 112, "W": 112, "C": 96, "dtype": "float32"},
    {"B": 1, "H": 33, "W": 47, "C": 130, "dtype": "float32"},
    {"B": 8, "H": 7, "W": 7, "C": 1152, "dtype": "bfloat16"},
    {"B": 1, "H": 512, "W": 509, "C": 32, "dtype": "float16"},
    {"B": 64, "H": 28, "W": 28, "C": 240, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def inputs(B=16, H=56, W=56, C=256, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(B, H, W, C, dtype=dtype, device=device)
    return x, torch.randn(3, 3, C, dtype=dtype, device=device) / 3


def reference(x, weight):
    H, W = x.shape[1:3]
    p = F.pad(x.float(), (0, 0, 1, 1, 1, 1))
    w = weight.float()
    out = sum(p[:, i : i + H, j : j + W] * w[i, j] for i in range(3) for j in range(3))
    return out.to(x.dtype)
