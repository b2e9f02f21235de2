"""Each row of a matrix sorted, the smallest value first."""

import torch

KIND = "scan"
SHAPES = [
    {"M": 4096, "N": 1024, "dtype": "float32"},
    {"M": 1000, "N": 777, "dtype": "float16"},
    {"M": 32768, "N": 64, "dtype": "float32"},
    {"M": 16384, "N": 256, "dtype": "bfloat16"},
    {"M": 100, "N": 2000, "dtype": "float32"},
    {"M": 2048, "N": 2048, "dtype": "float16"},
    {"M": 5003, "N": 31, "dtype": "float32"},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(M=4096, N=1024, dtype=torch.float32, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device),)


def reference(x):
    return x.sort(dim=1).values
