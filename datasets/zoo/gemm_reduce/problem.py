"""The largest inner product of each row of one matrix with the rows of another, and no others."""

import torch

KIND = "matmul"
SHAPES = [
    {"M": 16384, "N": 16384, "K": 512, "dtype": "bfloat16"},
    {"M": 4096, "N": 32768, "K": 1024, "dtype": "float16"},
    {"M": 32768, "N": 32768, "K": 128, "dtype": "bfloat16"},
    {"M": 1000, "N": 50000, "K": 768, "dtype": "float16"},
    {"M": 10007, "N": 3001, "K": 257, "dtype": "bfloat16"},  # primes
    {"M": 128, "N": 100000, "K": 384, "dtype": "float16"},
    {"M": 8192, "N": 8192, "K": 256, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}  # of three to five; tf32 keeps ten bits of a factor


def inputs(M=16384, N=16384, K=512, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, K, dtype=dtype, device=device)
    return x, torch.randn(N, K, dtype=dtype, device=device) * K**-0.5


def reference(x, w):
    return torch.cat([(part @ w.T).amax(dim=1) for part in x.split(16384)]).float()


def itemsize(shape):
    """Bytes of an input's element."""
    return 4 if "float32" in str(shape["dtype"]) else 2
