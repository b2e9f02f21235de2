"""The largest value of each R x R window of a plane, windows STRIDE apart, padded by R // 2."""

import torch
import torch.nn.functional as F

KIND = "convolution"
SHAPES = [
    {"C": 1024, "H": 112, "W": 112, "R": 3, "STRIDE": 2, "dtype": "float16"},
    {"C": 4096, "H": 28, "W": 28, "R": 2, "STRIDE": 2, "dtype": "bfloat16"},
    {"C": 64, "H": 333, "W": 517, "R": 3, "STRIDE": 1, "dtype": "float32"},
    {"C": 512, "H": 56, "W": 56, "R": 5, "STRIDE": 1, "dtype": "float16"},
    {"C": 17, "H": 61, "W": 43, "R": 3, "STRIDE": 2, "dtype": "float32"},
    {"C": 3, "H": 2048, "W": 2048, "R": 4, "STRIDE": 4, "dtype": "bfloat16"},
    {"C": 2048, "H": 14, "W": 14, "R": 3, "STRIDE": 1, "dtype": "float32"},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(C=1024, H=112, W=112, R=3, STRIDE=2, dtype=torch.float16, device="cuda"):
    return torch.randn(C, H, W, dtype=dtype, device=device), R, STRIDE


def reference(x, window, stride):
    return F.max_pool2d(x, window, stride, padding=window // 2)
