"""Product of 16-bit activations with int8 weights that have a scale for each column."""

import torch

KIND = "matmul"
SHAPES = [
    {"M": 4096, "N": 4096, "K": 4096, "dtype": "bfloat16"},
    {"M": 2048, "N": 11008, "K": 4096, "dtype": "float16"},
    {"M": 64, "N": 28672, "K": 8192, "dtype": "bfloat16"},
    {"M": 512, "N": 4096, "K": 14336, "dtype": "float16"},
    {"M": 1500, "N": 2512, "K": 3008, "dtype": "bfloat16"},  # multiples of 16, but of no tile
    {"M": 1009, "N": 2003, "K": 2011, "dtype": "float16"},  # primes
    {"M": 8192, "N": 2048, "K": 2048, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 3e-2}  # outputs of order one


def inputs(M=4096, N=4096, K=4096, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, K, dtype=dtype, device=device)
    w = torch.randint(-127, 128, (K, N), dtype=torch.int8, device=device)
    return x, w, (0.5 + torch.rand(N, device=device)) * (K**-0.5 / 73)


def reference(x, w, scale):
    return (x.float() @ w.float() * scale).to(x.dtype)
