"""Product x @ w of fp32 matrices; it may pass through tf32, which keeps ten bits of a factor."""

import torch

KIND = "matmul"
SHAPES = [
    {"M": 4096, "N": 4096, "K": 4096},
    {"M": 2048, "N": 2048, "K": 4096},
    {"M": 3000, "N": 2504, "K": 2000},  # multiples of 8, but of no tile
    {"M": 8192, "N": 1024, "K": 1024},
    {"M": 1511, "N": 2011, "K": 1009},  # primes
    {"M": 1024, "N": 1024, "K": 16384},
    {"M": 16384, "N": 2048, "K": 512},
]
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}  # outputs of order one


def reference(x, w):
    return x @ w


def inputs(M=2048, N=2048, K=2048, dtype=torch.float32, device="cuda"):
    x = torch.randn(M, K, dtype=dtype, device=device)
    return x, torch.randn(K, N, dtype=dtype, device=device) * K**-0.5
