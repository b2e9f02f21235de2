"""Root-mean-square normalisation of the rows of a matrix, with a learned weight."""

import torch
import torch.nn.functional as F

EPS = 1e-6
KIND = "norm"
SHAPES = [
    {"M": 64, "N": 4096, "dtype": "bfloat16"},
    {"M": 16384, "N": 320, "dtype": "float32"},
    {"M": 32768, "N": 640, "dtype": "float16"},
    {"M": 8192, "N": 2048, "dtype": "bfloat16"},
    {"M": 5003, "N": 3001, "dtype": "bfloat16"},
    {"M": 4096, "N": 5120, "dtype": "float16"},
    {"M": 4096, "N": 8192, "dtype": "float32"},
    {"M": 515, "N": 28672, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-3}


def inputs(M=8192, N=2048, dtype=torch.bfloat16, device="cuda"):
    return torch.randn(M, N, dtype=dtype, device=device), torch.randn(N, dtype=dtype, device=device)


def reference(x, weight):
    return F.rms_norm(x, (x.shape[-1],), weight, EPS)
