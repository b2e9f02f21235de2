"""Products of many pairs of small square matrices."""

import torch

KIND = "matmul"
SHAPES = [
    {"B": 200000, "N": 16, "dtype": "float32"},
    {"B": 600000, "N": 8, "dtype": "float32"},
    {"B": 60000, "N": 32, "dtype": "float16"},
    {"B": 100003, "N": 24, "dtype": "bfloat16"},
    {"B": 150001, "N": 13, "dtype": "float32"},
    {"B": 40009, "N": 31, "dtype": "float32"},
    {"B": 500000, "N": 12, "dtype": "float16"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def inputs(B=200000, N=16, dtype=torch.float32, device="cuda"):
    x = torch.randn(B, N, N, dtype=dtype, device=device)
    return x, torch.randn(B, N, N, dtype=dtype, device=device) * N**-0.5


def reference(x, y):
    return torch.bmm(x, y)
