"""Product x @ w.T of large matrices, both stored along the sum, as linear layers do."""

import torch

KIND = "matmul"
SHAPES = [
    {"M": 8192, "N": 8192, "K": 8192, "dtype": "bfloat16"},
    {"M": 4096, "N": 4096, "K": 4096, "dtype": "float16"},
    {"M": 8192, "N": 8192, "K": 2048, "dtype": "float16"},
    {"M": 5000, "N": 7000, "K": 6000, "dtype": "bfloat16"},  # multiples of 8, but of no tile
    {"M": 4096, "N": 16384, "K": 4096, "dtype": "bfloat16"},
    {"M": 3072, "N": 5120, "K": 13824, "dtype": "float16"},
    {"M": 4099, "N": 4111, "K": 4127, "dtype": "bfloat16"},  # primes
]
TOLERANCE = {"rtol": 1e-2, "atol": 3e-2}  # outputs of order one


def reference(x, w):
    return x @ w.T


def inputs(M=4096, N=4096, K=4096, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, K, dtype=dtype, device=device)
    return x, torch.randn(N, K, dtype=dtype, device=device) * K**-0.5
