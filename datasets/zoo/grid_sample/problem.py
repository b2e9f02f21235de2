"""Images sampled bilinearly where a grid says; zeros lie outside. SKEW draws places together."""

import torch
import torch.nn.functional as F

KIND = "indexing"
SHAPES = [
    {"B": 8, "C": 32, "H": 128, "W": 128, "P": 65536, "SKEW": 1.0, "dtype": "float32"},
    {"B": 2, "C": 3, "H": 1080, "W": 1920, "P": 2073600, "SKEW": 1.0, "dtype": "float32"},
    {"B": 4, "C": 64, "H": 200, "W": 300, "P": 40000, "SKEW": 3.0, "dtype": "float16"},
    {"B": 16, "C": 16, "H": 64, "W": 64, "P": 100003, "SKEW": 8.0, "dtype": "float32"},
    {"B": 1, "C": 128, "H": 255, "W": 257, "P": 50000, "SKEW": 1.0, "dtype": "bfloat16"},
    {"B": 1, "C": 1, "H": 8192, "W": 8192, "P": 10000000, "SKEW": 1.0, "dtype": "float32"},
    {"B": 3, "C": 5, "H": 601, "W": 397, "P": 1000003, "SKEW": 3.0, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def inputs(B=8, C=32, H=128, W=128, P=65536, SKEW=1.0, dtype=torch.float32, device="cuda"):
    """Images and P places (x, y) in each, in fractions from -1 to 1 and a little beyond."""
    places = torch.rand(B, P, 2, device=device) * 2 - 1
    places = places.sign() * places.abs().pow(SKEW) * 1.05
    return torch.randn(B, C, H, W, dtype=dtype, device=device), places


def reference(x, places):
    out = F.grid_sample(x.float(), places[:, None], padding_mode="zeros", align_corners=False)
    return out[:, :, 0].to(x.dtype)
