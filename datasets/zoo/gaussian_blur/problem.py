"""A separable blur of images: 2 R + 1 taps along rows, then along columns; zeros lie outside."""

import torch
import torch.nn.functional as F

KIND = "convolution"
SHAPES = [
    {"B": 3, "H": 4096, "W": 4096, "R": 3, "dtype": "float32"},
    {"B": 8, "H": 1080, "W": 1920, "R": 5, "dtype": "float16"},
    {"B": 1, "H": 8192, "W": 8192, "R": 2, "dtype": "bfloat16"},
    {"B": 16, "H": 511, "W": 1023, "R": 7, "dtype": "float32"},
    {"B": 64, "H": 256, "W": 256, "R": 4, "dtype": "float16"},
    {"B": 1, "H": 20011, "W": 333, "R": 10, "dtype": "float32"},
    {"B": 4, "H": 2048, "W": 2048, "R": 15, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def inputs(B=3, H=4096, W=4096, R=3, dtype=torch.float32, device="cuda"):
    taps = torch.softmax(-torch.linspace(-2.5, 2.5, 2 * R + 1, device=device).square() / 2, dim=0)
    return torch.randn(B, H, W, dtype=dtype, device=device), taps


def reference(x, taps):
    reach = taps.shape[0] // 2
    rows = F.conv2d(x.float()[:, None], taps.view(1, 1, 1, -1), padding=(0, reach))
    return F.conv2d(rows, taps.view(1, 1, -1, 1), padding=(reach, 0))[:, 0].to(x.dtype)
