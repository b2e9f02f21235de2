"""Squared Euclidean distances between all rows of one matrix and all rows of another."""

import torch

KIND = "reduction"
SHAPES = [
    {"M": 2048, "N": 2048, "D": 64, "dtype": "float16"},
    {"M": 4096, "N": 4096, "D": 3, "dtype": "float32"},
    {"M": 1000, "N": 777, "D": 50, "dtype": "float32"},
    {"M": 8192, "N": 512, "D": 128, "dtype": "bfloat16"},
    {"M": 100000, "N": 100, "D": 16, "dtype": "float32"},
    {"M": 333, "N": 5003, "D": 200, "dtype": "float16"},
    {"M": 256, "N": 256, "D": 768, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 5e-2}


def inputs(M=2048, N=2048, D=64, dtype=torch.float16, device="cuda"):
    scale = D**-0.5  # distances are about 2
    x = torch.randn(M, D, device=device) * scale
    return x.to(dtype), (torch.randn(N, D, device=device) * scale).to(dtype)


def reference(x, y):
    x, y = x.float(), y.float()
    products = x @ y.t()
    squares = (x * x).sum(dim=1)[:, None] + (y * y).sum(dim=1)[None, :]
    return (squares - 2 * products).clamp_(min=0)
