"""Softmax over the last axis of a matrix, from a handful of columns to a whole vocabulary."""

import torch

KIND = "softmax"
SHAPES = [
    {"M": 32768, "N": 127, "dtype": "bfloat16"},
    {"M": 2048, "N": 256, "dtype": "float32"},
    {"M": 8192, "N": 1024, "dtype": "float16"},
    {"M": 4099, "N": 3001, "dtype": "float32"},
    {"M": 8192, "N": 4096, "dtype": "bfloat16"},
    {"M": 2048, "N": 8192, "dtype": "float16"},
    {"M": 521, "N": 50257, "dtype": "bfloat16"},
    {"M": 64, "N": 131072, "dtype": "float16"},
]
# Probabilities are about 1/N, so only a relative tolerance says anything.
TOLERANCE = {"rtol": 1e-2, "atol": 1e-6}


def inputs(M=8192, N=4096, dtype=torch.bfloat16, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device),)


def reference(x):
    return torch.softmax(x, dim=-1)
