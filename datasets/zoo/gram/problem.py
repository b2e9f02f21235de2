"""All inner products of rows, x @ x.T: symmetric, so that half the tiles say everything."""

import torch

KIND = "matmul"
SHAPES = [
    {"M": 4096, "K": 1024, "dtype": "bfloat16"},
    {"M": 2048, "K": 2048, "dtype": "float16"},
    {"M": 1024, "K": 1024, "dtype": "float32"},
    {"M": 384, "K": 16384, "dtype": "bfloat16"},
    {"M": 1000, "K": 520, "dtype": "float16"},
    {"M": 211, "K": 307, "dtype": "bfloat16"},  # primes
    {"M": 8000, "K": 64, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}  # outputs of order one off the diagonal


def reference(x):
    return x @ x.T


def inputs(M=2048, K=2048, dtype=torch.bfloat16, device="cuda"):
    return torch.randn(M, K, dtype=dtype, device=device) * K**-0.25


def itemsize(shape):
    """Bytes of an element."""
    return 4 if "float32" in str(shape["dtype"]) else 2
