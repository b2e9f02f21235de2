"""Solves L x = b for many small lower triangular matrices, each with K right sides."""

import torch

KIND = "matmul"
SHAPES = [
    {"B": 100000, "N": 16, "K": 16, "dtype": "float32"},
    {"B": 400000, "N": 8, "K": 4, "dtype": "float32"},
    {"B": 20000, "N": 32, "K": 64, "dtype": "float32"},
    {"B": 60007, "N": 24, "K": 8, "dtype": "float16"},
    {"B": 150001, "N": 13, "K": 1, "dtype": "float32"},
    {"B": 30000, "N": 16, "K": 100, "dtype": "bfloat16"},
    {"B": 40009, "N": 31, "K": 17, "dtype": "float32"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def inputs(B=100000, N=16, K=16, dtype=torch.float32, device="cuda"):
    lower = torch.randn(B, N, N, device=device).tril(-1) / N
    lower += torch.diag_embed(1 + torch.rand(B, N, device=device))
    return lower.to(dtype), torch.randn(B, N, K, dtype=dtype, device=device)


def reference(lower, b):
    return torch.linalg.solve_triangular(lower.float(), b.float(), upper=False).to(b.dtype)
