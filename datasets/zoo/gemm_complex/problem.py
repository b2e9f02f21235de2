"""Product of complex matrices whose real and imaginary parts are matrices of their own."""

import torch

KIND = "matmul"
SHAPES = [
    {"M": 4096, "N": 4096, "K": 2048, "dtype": "bfloat16"},
    {"M": 2048, "N": 2048, "K": 2048, "dtype": "float16"},
    {"M": 2048, "N": 2048, "K": 1024, "dtype": "float32"},
    {"M": 8192, "N": 1024, "K": 1024, "dtype": "float16"},
    {"M": 1000, "N": 3000, "K": 2000, "dtype": "bfloat16"},
    {"M": 1021, "N": 2039, "K": 1031, "dtype": "float16"},  # primes
    {"M": 512, "N": 512, "K": 16384, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 5e-2}  # outputs of order one; tf32 keeps ten bits of a factor


def inputs(M=2048, N=2048, K=2048, dtype=torch.bfloat16, device="cuda"):
    a, b = (torch.randn(M, K, dtype=dtype, device=device) for _ in range(2))
    c, d = (torch.randn(K, N, dtype=dtype, device=device) * K**-0.5 for _ in range(2))
    return a, b, c, d


def reference(a, b, c, d):
    real = torch.addmm(a @ c, b, d, alpha=-1)
    return real, torch.addmm(a @ d, b, c)


def itemsize(shape):
    """Bytes of an input's element."""
    return 4 if "float32" in str(shape["dtype"]) else 2
