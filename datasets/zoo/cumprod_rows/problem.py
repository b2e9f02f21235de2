"""Running products along the rows of a matrix, of factors close to 1."""

import torch

KIND = "scan"
SHAPES = [
    {"M": 16384, "N": 4096, "dtype": "float32"},
    {"M": 30000, "N": 1000, "dtype": "float32"},
    {"M": 5003, "N": 3001, "dtype": "bfloat16"},
    {"M": 65536, "N": 512, "dtype": "float16"},
    {"M": 4096, "N": 16384, "dtype": "float32"},
    {"M": 200000, "N": 127, "dtype": "float32"},
    {"M": 3000, "N": 12289, "dtype": "float16"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 1e-3}


def inputs(M=16384, N=4096, dtype=torch.float32, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device) * N**-0.5 + 1,)


def reference(x):
    return x.float().cumprod(dim=1).to(x.dtype)
