"""Sums over all that is above and to the left, of each place of a batch of images.

Values are multiples of 1/8, so that sums are exact in any order.
"""

import torch

KIND = "scan"
SHAPES = [
    {"B": 4, "H": 2048, "W": 2048, "dtype": "float32"},
    {"B": 64, "H": 480, "W": 640, "dtype": "float16"},
    {"B": 1, "H": 5001, "W": 7003, "dtype": "float32"},
    {"B": 1, "H": 8192, "W": 8192, "dtype": "float16"},
    {"B": 3000, "H": 100, "W": 130, "dtype": "float32"},
    {"B": 16, "H": 1080, "W": 1920, "dtype": "float32"},
    {"B": 2, "H": 333, "W": 30000, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-3, "atol": 5e-2}


def inputs(B=4, H=2048, W=2048, dtype=torch.float32, device="cuda"):
    eighths = torch.randint(-8, 9, (B, H, W), dtype=torch.int8, device=device)
    return (eighths.to(dtype) / 8,)


def reference(x):
    return x.float().cumsum(2).cumsum(1)
