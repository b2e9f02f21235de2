"""A matrix times a vector, w @ x, with rows of w in a row in memory."""

import torch

KIND = "matmul"
SHAPES = [
    {"N": 14336, "K": 4096, "dtype": "bfloat16"},
    {"N": 1024, "K": 16384, "dtype": "bfloat16"},
    {"N": 4096, "K": 4096, "dtype": "float16"},
    {"N": 100003, "K": 64, "dtype": "float32"},  # many short rows
    {"N": 777, "K": 3001, "dtype": "float32"},
    {"N": 32000, "K": 2048, "dtype": "bfloat16"},
    {"N": 96, "K": 262144, "dtype": "float16"},  # few long rows
    {"N": 5000, "K": 1000, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}  # outputs of order one


def reference(w, x):
    return w @ x


def inputs(N=14336, K=4096, dtype=torch.bfloat16, device="cuda"):
    w = torch.randn(N, K, dtype=dtype, device=device) * K**-0.5
    return w, torch.randn(K, dtype=dtype, device=device)
