"""Columns of a matrix picked by index, the same ones in every row."""

import torch

KIND = "indexing"
SHAPES = [
    {"M": 8192, "N": 4096, "K": 2048},
    {"M": 1021, "N": 1531, "K": 777, "dtype": "float32"},
    {"M": 65536, "N": 256, "K": 256},
    {"M": 512, "N": 32768, "K": 8192, "dtype": "float32"},
    {"M": 16384, "N": 2048, "K": 512},
    {"M": 4096, "N": 1024, "K": 4096, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def reference(x, index):
    return torch.index_select(x, 1, index)


def inputs(M=8192, N=4096, K=2048, dtype=torch.float16, device="cuda"):
    x = torch.randn(M, N, dtype=dtype, device=device)
    return x, torch.randint(0, N, (K,), device=device, dtype=torch.int32)
