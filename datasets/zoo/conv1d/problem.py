"""Convolution along time with channels last: K filters of R taps, padded by R // 2."""

import torch
import torch.nn.functional as F

KIND = "convolution"
SHAPES = [
    {"B": 8, "T": 2048, "C": 128, "K": 256, "R": 3, "dtype": "bfloat16"},
    {"B": 1, "T": 3000, "C": 80, "K": 384, "R": 3, "dtype": "float16"},
    {"B": 4, "T": 16000, "C": 1, "K": 64, "R": 9, "dtype": "float16"},
    {"B": 2, "T": 333, "C": 51, "K": 77, "R": 5, "dtype": "float32"},
    {"B": 16, "T": 512, "C": 512, "K": 512, "R": 1, "dtype": "bfloat16"},
    {"B": 1, "T": 100, "C": 32, "K": 32, "R": 7, "dtype": "float32"},
    {"B": 4, "T": 1500, "C": 384, "K": 384, "R": 3, "dtype": "float16"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def inputs(B=8, T=2048, C=128, K=256, R=3, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(B, T, C, dtype=dtype, device=device)
    return x, torch.randn(R, C, K, dtype=dtype, device=device) * (R * C) ** -0.5


def reference(x, weight):
    filters = weight.permute(2, 1, 0)
    out = F.conv1d(x.transpose(1, 2), filters, padding=weight.shape[0] // 2)
    return out.transpose(1, 2).contiguous()
