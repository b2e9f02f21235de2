"""The sum of each row in float32."""

import torch

KIND = "reduction"
SHAPES = [
    {"M": 16384, "N": 4096},
    {"M": 1024, "N": 20000},
    {"M": 16, "N": 1048576, "dtype": "bfloat16"},
    {"M": 131072, "N": 256, "dtype": "float16"},
    {"M": 4099, "N": 1021},
    {"M": 257, "N": 2048, "dtype": "bfloat16"},
    {"M": 8192, "N": 8192, "dtype": "bfloat16"},
    {"M": 2048, "N": 16000, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-4, "atol": 1e-2}


def reference(x):
    return x.sum(dim=1, dtype=torch.float32)


def inputs(M=16384, N=4096, dtype=torch.float32, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device),)
