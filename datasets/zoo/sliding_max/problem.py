"""The largest of each WINDOW neighbours along the rows of a matrix; windows lie within the row."""

import torch

KIND = "reduction"
SHAPES = [
    {"M": 8192, "N": 4096, "WINDOW": 16, "dtype": "float32"},
    {"M": 1000, "N": 30001, "WINDOW": 101, "dtype": "float32"},
    {"M": 16384, "N": 2048, "WINDOW": 5, "dtype": "bfloat16"},
    {"M": 64, "N": 1000003, "WINDOW": 500, "dtype": "float16"},
    {"M": 30011, "N": 1500, "WINDOW": 64, "dtype": "float16"},
    {"M": 256, "N": 131072, "WINDOW": 31, "dtype": "bfloat16"},
    {"M": 32, "N": 2097152, "WINDOW": 255, "dtype": "float32"},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(M=8192, N=4096, WINDOW=16, dtype=torch.float32, device="cuda"):
    return torch.randn(M, N, dtype=dtype, device=device), WINDOW


def reference(x, window):
    return torch.nn.functional.max_pool1d(x, window, stride=1)
