"""Logarithm of the softmax over the last axis of a matrix."""

import torch

KIND = "softmax"
SHAPES = [
    {"M": 128, "N": 1024, "dtype": "float32"},
    {"M": 65536, "N": 131, "dtype": "bfloat16"},
    {"M": 8192, "N": 2048, "dtype": "float16"},
    {"M": 4093, "N": 5003, "dtype": "bfloat16"},
    {"M": 2048, "N": 8192, "dtype": "float32"},
    {"M": 1024, "N": 32000, "dtype": "bfloat16"},
    {"M": 96, "N": 100003, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-3}


def inputs(M=8192, N=2048, dtype=torch.float16, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device),)


def reference(x):
    return torch.log_softmax(x, dim=-1)
