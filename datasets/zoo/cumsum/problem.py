"""Running sums along the last axis of a matrix."""

import torch

KIND = "scan"
SHAPES = [
    {"M": 4096, "N": 4096, "dtype": "float32"},
    {"M": 257, "N": 1021, "dtype": "float32"},
    {"M": 16384, "N": 1000, "dtype": "float16"},
    {"M": 64, "N": 131072, "dtype": "float32"},
    {"M": 1000, "N": 3001, "dtype": "bfloat16"},
    {"M": 8192, "N": 512, "dtype": "bfloat16"},
    {"M": 8, "N": 50257, "dtype": "float32"},
    {"M": 2048, "N": 16384, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}


def inputs(M=4096, N=4096, dtype=torch.float32, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device),)


def reference(x):
    return x.float().cumsum(dim=1).to(x.dtype)
