"""The sum of each column in float32, as in the gradient of a bias."""

import torch

KIND = "reduction"
SHAPES = [
    {"M": 16384, "N": 4096},
    {"M": 65536, "N": 256},
    {"M": 8192, "N": 8192, "dtype": "bfloat16"},
    {"M": 1000003, "N": 33, "dtype": "float16"},
    {"M": 509, "N": 3001},
    {"M": 64, "N": 65536, "dtype": "float16"},
    {"M": 4096, "N": 1536, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 1e-4, "atol": 1e-1}


def reference(x):
    return x.sum(dim=0, dtype=torch.float32)


def inputs(M=16384, N=4096, dtype=torch.float32, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device),)
