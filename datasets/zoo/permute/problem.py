"""The middle axes of a tensor exchanged (0213): heads before tokens, or back."""

import torch

KIND = "layout"
SHAPES = [
    {"B": 4, "S": 2048, "H": 32, "D": 128, "dtype": "bfloat16"},
    {"B": 8, "S": 1024, "H": 16, "D": 64, "dtype": "float16"},
    {"B": 2, "S": 333, "H": 7, "D": 80, "dtype": "float32"},
    {"B": 1, "S": 65536, "H": 3, "D": 32, "dtype": "float32"},
    {"B": 16, "S": 100, "H": 12, "D": 64, "dtype": "bfloat16"},
    {"B": 3, "S": 1021, "H": 61, "D": 5, "dtype": "float16"},
    {"B": 64, "S": 8, "H": 128, "D": 96, "dtype": "float32"},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(B=4, S=2048, H=32, D=128, dtype=torch.bfloat16, device="cuda"):
    return (torch.randn(B, S, H, D, dtype=dtype, device=device),)


def reference(x):
    return x.permute(0, 2, 1, 3).contiguous()
