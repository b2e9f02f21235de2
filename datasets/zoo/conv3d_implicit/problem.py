"""Convolution of volumes with channels last by 3 x 3 x 3 filters, padded by one."""

import torch
import torch.nn.functional as F

KIND = "convolution"
SHAPES = [
    {"B": 2, "D": 16, "H": 56, "W": 56, "C": 64, "K": 64, "dtype": "bfloat16"},
    {"B": 1, "D": 32, "H": 64, "W": 64, "C": 128, "K": 128, "dtype": "float16"},
    {"B": 4, "D": 8, "H": 28, "W": 28, "C": 128, "K": 256, "dtype": "bfloat16"},
    {"B": 1, "D": 19, "H": 45, "W": 37, "C": 48, "K": 80, "dtype": "float16"},
    {"B": 1, "D": 64, "H": 96, "W": 96, "C": 16, "K": 32, "dtype": "bfloat16"},
    {"B": 8, "D": 8, "H": 14, "W": 14, "C": 256, "K": 256, "dtype": "float16"},
    {"B": 1, "D": 17, "H": 31, "W": 33, "C": 30, "K": 50, "dtype": "float32"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}  # outputs of order one


def inputs(B=2, D=16, H=56, W=56, C=64, K=64, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(B, D, H, W, C, dtype=dtype, device=device)
    return x, torch.randn(3, 3, 3, C, K, dtype=dtype, device=device) * (27 * C) ** -0.5


def reference(x, weight):
    volumes, filters = x.permute(0, 4, 1, 2, 3), weight.permute(4, 3, 0, 1, 2)
    return F.conv3d(volumes, filters, padding=1).permute(0, 2, 3, 4, 1).contiguous()


def itemsize(shape):
    """Bytes of an input's element."""
    return 4 if "float32" in str(shape["dtype"]) else 2
