"""Matrix product x @ w of dense matrices, summed in fp32; fp32 inputs may pass through tf32."""

import torch

KIND = "matmul"
SHAPES = [
    {"M": 4096, "N": 4096, "K": 4096, "dtype": "bfloat16"},
    {"M": 2048, "N": 2048, "K": 2048, "dtype": "float16"},
    {"M": 1024, "N": 1024, "K": 1024, "dtype": "float32"},
    {"M": 512, "N": 512, "K": 512, "dtype": "bfloat16"},
    {"M": 1000, "N": 2000, "K": 3000, "dtype": "bfloat16"},  # multiples of 8, but of no tile
    {"M": 257, "N": 509, "K": 1021, "dtype": "float16"},  # primes
    {"M": 8192, "N": 768, "K": 512, "dtype": "float32"},
    {"M": 256, "N": 384, "K": 16384, "dtype": "bfloat16"},  # few tiles, a long sum
]
# Outputs are of order one; tf32 keeps ten bits of each factor.
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}


def reference(x, w):
    return x @ w


def inputs(M=2048, N=2048, K=2048, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, K, dtype=dtype, device=device)
    return x, torch.randn(K, N, dtype=dtype, device=device) * K**-0.5


def itemsize(shape):
    """Bytes of an input's element."""
    return 4 if "float32" in str(shape["dtype"]) else 2
