"""Product x @ w.T of a few rows with a linear layer's weights, as when a model decodes."""

import torch

KIND = "matmul"
SHAPES = [
    {"M": 1, "N": 4096, "K": 4096, "dtype": "bfloat16"},
    {"M": 4, "N": 14336, "K": 4096, "dtype": "bfloat16"},
    {"M": 16, "N": 4096, "K": 14336, "dtype": "float16"},
    {"M": 32, "N": 6144, "K": 2048, "dtype": "bfloat16"},
    {"M": 64, "N": 8192, "K": 8192, "dtype": "bfloat16"},
    {"M": 7, "N": 1003, "K": 2049, "dtype": "float16"},  # rows of w start at odd addresses
    {"M": 13, "N": 776, "K": 512, "dtype": "float32"},
    {"M": 48, "N": 2560, "K": 2560, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}  # outputs of order one


def reference(x, w):
    return x @ w.T


def inputs(M=16, N=4096, K=4096, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, K, dtype=dtype, device=device)
    return x, torch.randn(N, K, dtype=dtype, device=device) * K**-0.5


def itemsize(shape):
    """Bytes of an input's element."""
    return 4 if "float32" in str(shape["dtype"]) else 2
