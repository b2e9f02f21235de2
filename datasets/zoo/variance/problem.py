"""Mean and unbiased variance of each row in float32."""

import torch

KIND = "reduction"
SHAPES = [
    {"M": 8192, "N": 4096},
    {"M": 3001, "N": 777, "dtype": "float16"},
    {"M": 128, "N": 131072, "dtype": "bfloat16"},
    {"M": 65536, "N": 300, "dtype": "float16"},
    {"M": 1024, "N": 16384},
    {"M": 16384, "N": 2048, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}


def reference(x):
    variance, mean = torch.var_mean(x.float(), dim=1)
    return mean, variance


def inputs(M=8192, N=4096, dtype=torch.float32, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device) + 1.0,)
