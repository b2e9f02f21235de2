"""Convolution of images with channels last by R x R filters, padded by R // 2, with a stride."""

import torch
import torch.nn.functional as F

KIND = "convolution"
SHAPES = [
    {"B": 16, "H": 56, "W": 56, "C": 64, "K": 64, "R": 3, "STRIDE": 1, "dtype": "bfloat16"},
    {"B": 16, "H": 28, "W": 28, "C": 128, "K": 256, "R": 3, "STRIDE": 2, "dtype": "float16"},
    {"B": 8, "H": 112, "W": 112, "C": 3, "K": 64, "R": 7, "STRIDE": 2, "dtype": "float16"},
    {"B": 1, "H": 33, "W": 45, "C": 50, "K": 70, "R": 3, "STRIDE": 1, "dtype": "float32"},
    {"B": 32, "H": 14, "W": 14, "C": 256, "K": 1000, "R": 1, "STRIDE": 1, "dtype": "bfloat16"},
    {"B": 4, "H": 27, "W": 27, "C": 96, "K": 256, "R": 5, "STRIDE": 1, "dtype": "float16"},
    {"B": 2, "H": 7, "W": 7, "C": 512, "K": 512, "R": 3, "STRIDE": 1, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def inputs(
    B=16, H=56, W=56, C=64, K=64, R=3, STRIDE=1, dtype=torch.bfloat16, device="cuda"
):  # fmt: skip
    x = torch.randn(B, H, W, C, dtype=dtype, device=device)
    weight = torch.randn(K, R, R, C, dtype=dtype, device=device) * (R * R * C) ** -0.5
    return x, weight, STRIDE


def reference(x, weight, stride):
    images, filters = x.permute(0, 3, 1, 2), weight.permute(0, 3, 1, 2)
    out = F.conv2d(images, filters, stride=stride, padding=weight.shape[1] // 2)
    return out.permute(0, 2, 3, 1).contiguous()
