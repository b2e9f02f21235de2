"""Logarithm of the sum of exponentials of each row of a matrix, in fp32."""

import torch

KIND = "softmax"
SHAPES = [
    {"M": 1024, "N": 512, "dtype": "float16"},
    {"M": 32768, "N": 259, "dtype": "bfloat16"},
    {"M": 16384, "N": 1024, "dtype": "float32"},
    {"M": 5003, "N": 3331, "dtype": "float32"},
    {"M": 8192, "N": 4096, "dtype": "bfloat16"},
    {"M": 1000, "N": 65537, "dtype": "float16"},
    {"M": 24, "N": 1000000, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}


def inputs(M=8192, N=4096, dtype=torch.bfloat16, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device),)


def reference(x):
    return torch.logsumexp(x.float(), dim=-1)
