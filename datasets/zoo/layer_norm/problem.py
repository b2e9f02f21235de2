"""Layer normalisation of the rows of a matrix, with a learned weight and bias."""

import torch
import torch.nn.functional as F

EPS = 1e-5
KIND = "norm"
SHAPES = [
    {"M": 512, "N": 512, "dtype": "float32"},
    {"M": 16384, "N": 257, "dtype": "float32"},
    {"M": 32768, "N": 768, "dtype": "bfloat16"},
    {"M": 8192, "N": 1024, "dtype": "float16"},
    {"M": 4001, "N": 3001, "dtype": "bfloat16"},
    {"M": 8192, "N": 4096, "dtype": "bfloat16"},
    {"M": 2048, "N": 12288, "dtype": "float16"},
    {"M": 301, "N": 32768, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}


def inputs(M=8192, N=4096, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, N, dtype=dtype, device=device)
    weight, bias = (torch.randn(N, dtype=dtype, device=device) for _ in range(2))
    return x, weight, bias


def reference(x, weight, bias):
    return F.layer_norm(x, x.shape[-1:], weight, bias, EPS)
