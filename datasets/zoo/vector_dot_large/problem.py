"""The inner product of two large vectors, one number."""

import torch

KIND = "reduction"
SHAPES = [
    {"N": 1 << 26, "dtype": "float32"},
    {"N": 1 << 21, "dtype": "float32"},
    {"N": 100000007, "dtype": "bfloat16"},
    {"N": 1 << 27, "dtype": "float16"},
    {"N": 20000003, "dtype": "float32"},
    {"N": 1 << 26, "dtype": "bfloat16"},
    {"N": 1 << 23, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-3, "atol": 1e-2}


def inputs(N=1 << 26, dtype=torch.float32, device="cuda"):
    x = torch.rand(N, dtype=dtype, device=device)
    return x, torch.rand(N, dtype=dtype, device=device)


def reference(x, y):
    return (x.float() * y.float()).sum().reshape(1)
