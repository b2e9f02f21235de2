"""The lower Cholesky factors of many small positive definite matrices; zeros lie above."""

import torch

KIND = "matmul"
SHAPES = [
    {"B": 200000, "N": 16, "dtype": "float32"},
    {"B": 800000, "N": 8, "dtype": "float32"},
    {"B": 50000, "N": 32, "dtype": "float32"},
    {"B": 60007, "N": 24, "dtype": "float16"},
    {"B": 150001, "N": 13, "dtype": "float32"},
    {"B": 300000, "N": 16, "dtype": "bfloat16"},
    {"B": 20011, "N": 31, "dtype": "float32"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def inputs(B=200000, N=16, dtype=torch.float32, device="cuda"):
    g = torch.randn(B, N, N, device=device)
    a = g @ g.transpose(1, 2) / N + torch.eye(N, device=device)
    return (a.to(dtype),)


def reference(a):
    return torch.linalg.cholesky_ex(a.float()).L.to(a.dtype)
