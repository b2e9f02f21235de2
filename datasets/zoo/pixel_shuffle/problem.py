"""Depth to space: R * R channels of a plane become one plane R times as high and wide."""

import torch
import torch.nn.functional as F

KIND = "layout"
SHAPES = [
    {"B": 8, "C": 64, "H": 64, "W": 64, "R": 2, "dtype": "float16"},
    {"B": 1, "C": 3, "H": 540, "W": 960, "R": 4, "dtype": "float16"},
    {"B": 2, "C": 16, "H": 129, "W": 65, "R": 2, "dtype": "float32"},
    {"B": 1, "C": 3, "H": 333, "W": 517, "R": 3, "dtype": "float32"},
    {"B": 16, "C": 128, "H": 16, "W": 16, "R": 2, "dtype": "bfloat16"},
    {"B": 4, "C": 1, "H": 256, "W": 256, "R": 8, "dtype": "bfloat16"},
    {"B": 1, "C": 32, "H": 256, "W": 256, "R": 2, "dtype": "float32"},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(B=8, C=64, H=64, W=64, R=2, dtype=torch.float16, device="cuda"):
    return torch.randn(B, C * R * R, H, W, dtype=dtype, device=device), R


def reference(x, factor):
    return F.pixel_shuffle(x, factor).contiguous()
