"""Weighted sums of outer products, (x * weights) @ x.T + shift: symmetric, as in a covariance."""

import torch

KIND = "matmul"
SHAPES = [
    {"M": 4096, "K": 4096, "dtype": "bfloat16"},
    {"M": 8192, "K": 1024, "dtype": "float16"},
    {"M": 2048, "K": 8192, "dtype": "bfloat16"},
    {"M": 3000, "K": 2000, "dtype": "float16"},
    {"M": 1999, "K": 2503, "dtype": "bfloat16"},  # primes
    {"M": 2048, "K": 2048, "dtype": "float32"},
    {"M": 512, "K": 32768, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}  # outputs of order one off the diagonal


def inputs(M=4096, K=4096, dtype=torch.bfloat16, device="cuda"):
    """Rows, a weight for each column, and what is added to the diagonal."""
    x = torch.randn(M, K, dtype=dtype, device=device) * K**-0.25
    return x, torch.rand(K, device=device), 0.5


def reference(x, weights, shift):
    out = (x * weights).to(x.dtype) @ x.T
    out.diagonal().add_(shift)
    return out


def itemsize(shape):
    """Bytes of an input's element."""
    return 4 if "float32" in str(shape["dtype"]) else 2
