"""The sum along the middle of three axes, in float32."""

import torch

KIND = "reduction"
SHAPES = [
    {"B": 64, "M": 1024, "N": 1024},
    {"B": 512, "M": 77, "N": 769, "dtype": "float16"},
    {"B": 4, "M": 8192, "N": 512, "dtype": "bfloat16"},
    {"B": 16, "M": 2048, "N": 2048, "dtype": "bfloat16"},
    {"B": 4096, "M": 64, "N": 64},
    {"B": 32, "M": 197, "N": 1024, "dtype": "float16"},
    {"B": 1024, "M": 49, "N": 320},
]
TOLERANCE = {"rtol": 1e-4, "atol": 2e-2}


def reference(x):
    return x.sum(dim=1, dtype=torch.float32)


def inputs(B=64, M=1024, N=1024, dtype=torch.float32, device="cuda"):
    return (torch.randn(B, M, N, dtype=dtype, device=device),)
