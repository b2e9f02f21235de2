"""Planes of images resized bilinearly to OH by OW; pixels' centres are half a pixel in."""

import torch
import torch.nn.functional as F

KIND = "layout"
SHAPES = [
    {"P": 24, "H": 1080, "W": 1920, "OH": 2160, "OW": 3840, "dtype": "float16"},
    {"P": 3, "H": 4000, "W": 6000, "OH": 1000, "OW": 1500, "dtype": "float32"},
    {"P": 512, "H": 128, "W": 128, "OH": 256, "OW": 256, "dtype": "float32"},
    {"P": 96, "H": 480, "W": 640, "OH": 512, "OW": 512, "dtype": "bfloat16"},
    {"P": 1000, "H": 31, "W": 37, "OH": 223, "OW": 227, "dtype": "float32"},
    {"P": 1, "H": 9001, "W": 7001, "OH": 8192, "OW": 8192, "dtype": "float32"},
    {"P": 2048, "H": 14, "W": 14, "OH": 112, "OW": 112, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def inputs(P=24, H=1080, W=1920, OH=2160, OW=3840, dtype=torch.float16, device="cuda"):
    return torch.randn(P, H, W, dtype=dtype, device=device), OH, OW


def reference(x, high, wide):
    return F.interpolate(x[:, None], (high, wide), mode="bilinear", align_corners=False)[:, 0]
