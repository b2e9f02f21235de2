"""Means of each WINDOW neighbours along the rows of a matrix; windows lie within the row."""

import torch

KIND = "reduction"
SHAPES = [
    {"M": 8192, "N": 4096, "WINDOW": 20, "dtype": "float32"},
    {"M": 500, "N": 50001, "WINDOW": 365, "dtype": "float32"},
    {"M": 16384, "N": 3000, "WINDOW": 7, "dtype": "bfloat16"},
    {"M": 100, "N": 500009, "WINDOW": 250, "dtype": "float16"},
    {"M": 2048, "N": 16384, "WINDOW": 50, "dtype": "float16"},
    {"M": 16, "N": 4194304, "WINDOW": 100, "dtype": "float32"},
    {"M": 50000, "N": 777, "WINDOW": 30, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def inputs(M=8192, N=4096, WINDOW=20, dtype=torch.float32, device="cuda"):
    return torch.randn(M, N, dtype=dtype, device=device), WINDOW


def reference(x, window):
    return torch.nn.functional.avg_pool1d(x.float(), window, stride=1).to(x.dtype)
