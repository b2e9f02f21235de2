"""Rows picked by index and weighted, as tokens sent to their experts."""

import torch

KIND = "indexing"
SHAPES = [
    {"T": 16384, "S": 8192, "D": 2048},
    {"T": 1024, "S": 4096, "D": 7168, "dtype": "float16"},
    {"T": 5003, "S": 1009, "D": 515, "dtype": "float32"},
    {"T": 131072, "S": 32768, "D": 128, "dtype": "float16"},
    {"T": 8192, "S": 2048, "D": 4096},
    {"T": 65536, "S": 100000, "D": 256, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-3}


def reference(x, index, weight):
    return (x[index].float() * weight[:, None]).to(x.dtype)


def inputs(T=16384, S=8192, D=2048, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(S, D, dtype=dtype, device=device)
    index = torch.randint(0, S, (T,), device=device)
    return x, index, torch.rand(T, dtype=torch.float32, device=device)
