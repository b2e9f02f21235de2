"""Many matrix products x[b] @ y[b] of one size, as attention and grouped layers have them."""

import torch

KIND = "matmul"
SHAPES = [
    {"B": 64, "M": 512, "N": 512, "K": 256, "dtype": "bfloat16"},
    {"B": 512, "M": 128, "N": 128, "K": 64, "dtype": "float16"},
    {"B": 16, "M": 1024, "N": 1024, "K": 512, "dtype": "bfloat16"},
    {"B": 1000, "M": 32, "N": 32, "K": 32, "dtype": "float32"},
    {"B": 7, "M": 333, "N": 129, "K": 257, "dtype": "float16"},
    {"B": 96, "M": 64, "N": 2048, "K": 64, "dtype": "bfloat16"},
    {"B": 128, "M": 200, "N": 100, "K": 300, "dtype": "float32"},
    {"B": 4096, "M": 16, "N": 64, "K": 128, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}  # outputs of order one


def reference(x, y):
    return x @ y


def inputs(B=64, M=512, N=512, K=256, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(B, M, K, dtype=dtype, device=device)
    return x, torch.randn(B, K, N, dtype=dtype, device=device) * K**-0.5


def itemsize(shape):
    """Bytes of an input's element."""
    return 4 if "float32" in str(shape["dtype"]) else 2
