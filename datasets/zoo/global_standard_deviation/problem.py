"""The standard deviation of all of a large tensor, one number."""

import torch

KIND = "reduction"
SHAPES = [
    {"N": 1 << 26, "dtype": "float32"},
    {"N": 1 << 22, "dtype": "float32"},
    {"N": 100000007, "dtype": "bfloat16"},
    {"N": 1 << 28, "dtype": "float16"},
    {"N": 30000001, "dtype": "float32"},
    {"N": 1 << 27, "dtype": "bfloat16"},
    {"N": 1 << 24, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}


def inputs(N=1 << 26, dtype=torch.float32, device="cuda"):
    return (torch.randn(N, dtype=dtype, device=device) * 3 + 2,)


def reference(x):
    return torch.std(x.float(), correction=0).reshape(1)
