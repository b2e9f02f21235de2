"""Images framed on all four sides with a constant: planes of H x W within larger ones."""

import torch
import torch.nn.functional as F

KIND = "layout"
SHAPES = [
    {"C": 256, "H": 224, "W": 224, "P": 3, "dtype": "float16"},
    {"C": 64, "H": 512, "W": 512, "P": 1, "dtype": "float32"},
    {"C": 3, "H": 1023, "W": 2047, "P": 17, "dtype": "float32"},
    {"C": 2048, "H": 14, "W": 14, "P": 1, "dtype": "bfloat16"},
    {"C": 1, "H": 4096, "W": 4096, "P": 64, "dtype": "bfloat16"},
    {"C": 5, "H": 97, "W": 61, "P": 7, "dtype": "float32"},
    {"C": 512, "H": 56, "W": 56, "P": 2, "dtype": "float16"},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}
FILL = 0.5


def inputs(C=256, H=224, W=224, P=3, dtype=torch.float16, device="cuda"):
    return torch.randn(C, H, W, dtype=dtype, device=device), P


def reference(x, width):
    return F.pad(x, (width, width, width, width), value=FILL)
