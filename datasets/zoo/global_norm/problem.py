"""The Euclidean norm of a large tensor, one number, as in clipping of gradients."""

import torch

KIND = "reduction"
SHAPES = [
    {"N": 16777216},
    {"N": 262144},
    {"N": 3000017, "dtype": "bfloat16"},
    {"N": 50331648, "dtype": "bfloat16"},
    {"N": 67108864, "dtype": "float16"},
    {"N": 8388609},
]
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def reference(x):
    return x.float().square().sum().sqrt().reshape(1)


def inputs(N=16777216, dtype=torch.float32, device="cuda"):
    return (torch.randn(N, dtype=dtype, device=device),)
