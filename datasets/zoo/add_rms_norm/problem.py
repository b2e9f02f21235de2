"""A residual added to the rows of a matrix and their RMS normalisation: both are results."""

import torch
import torch.nn.functional as F

EPS = 1e-6
KIND = "norm"
SHAPES = [
    {"M": 32, "N": 8192, "dtype": "bfloat16"},
    {"M": 8192, "N": 384, "dtype": "float32"},
    {"M": 16384, "N": 1024, "dtype": "bfloat16"},
    {"M": 4096, "N": 2560, "dtype": "float16"},
    {"M": 2003, "N": 3583, "dtype": "bfloat16"},
    {"M": 4096, "N": 4096, "dtype": "float32"},
    {"M": 2048, "N": 8192, "dtype": "bfloat16"},
    {"M": 257, "N": 24576, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 4e-3}


def inputs(M=2048, N=8192, dtype=torch.bfloat16, device="cuda"):
    x, residual = (torch.randn(M, N, dtype=dtype, device=device) for _ in range(2))
    return x, residual, torch.randn(N, dtype=dtype, device=device)


def reference(x, residual, weight):
    total = x + residual
    return F.rms_norm(total, (x.shape[-1],), weight, EPS), total
