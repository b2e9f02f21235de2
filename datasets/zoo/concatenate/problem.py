"""Two matrices side by side in one: rows of N1 and N2 columns become rows of N1 + N2."""

import torch

KIND = "layout"
SHAPES = [
    {"M": 8192, "N1": 2048, "N2": 1024, "dtype": "bfloat16"},
    {"M": 4096, "N1": 4096, "N2": 4096, "dtype": "float32"},
    {"M": 1003, "N1": 777, "N2": 130, "dtype": "float16"},
    {"M": 100000, "N1": 48, "N2": 16, "dtype": "float32"},
    {"M": 64, "N1": 50000, "N2": 20001, "dtype": "float16"},
    {"M": 512, "N1": 512, "N2": 64, "dtype": "bfloat16"},
    {"M": 16384, "N1": 1, "N2": 640, "dtype": "float16"},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(M=8192, N1=2048, N2=1024, dtype=torch.bfloat16, device="cuda"):
    left = torch.randn(M, N1, dtype=dtype, device=device)
    return left, torch.randn(M, N2, dtype=dtype, device=device)


def reference(left, right):
    return torch.cat([left, right], dim=1)
