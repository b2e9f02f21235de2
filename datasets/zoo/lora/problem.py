"""A linear layer with a low-rank addition: x @ w.T + (x @ a.T) @ b.T."""

import torch

KIND = "matmul"
SHAPES = [
    {"M": 2048, "N": 4096, "K": 2048, "R": 16, "dtype": "bfloat16"},
    {"M": 1024, "N": 1024, "K": 4096, "R": 64, "dtype": "float16"},
    {"M": 512, "N": 512, "K": 512, "R": 8, "dtype": "bfloat16"},
    {"M": 16, "N": 4096, "K": 4096, "R": 32, "dtype": "float16"},
    {"M": 300, "N": 1000, "K": 776, "R": 24, "dtype": "bfloat16"},
    {"M": 131, "N": 263, "K": 307, "R": 5, "dtype": "float16"},  # primes
    {"M": 1024, "N": 768, "K": 768, "R": 16, "dtype": "float32"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 3e-2}  # outputs of order one, rounded more than once


def reference(x, w, a, b):
    return x @ w.T + (x @ a.T) @ b.T


def inputs(M=1024, N=4096, K=2048, R=16, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, K, dtype=dtype, device=device)
    w = torch.randn(N, K, dtype=dtype, device=device) * K**-0.5
    a = torch.randn(R, K, dtype=dtype, device=device) * K**-0.5
    return x, w, a, torch.randn(N, R, dtype=dtype, device=device) * R**-0.5


def itemsize(shape):
    """Bytes of an element."""
    return 4 if "float32" in str(shape["dtype"]) else 2


def padded_rank(R):
    """A side of a tile of the tensor cores that holds R."""
    return max(16, 1 << (R - 1).bit_length())
