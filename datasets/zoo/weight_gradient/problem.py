"""Gradients of a linear layer's weights and bias: dy.T @ x, a sum over tokens, and dy summed up."""

import torch

KIND = "matmul"
SHAPES = [
    {"T": 4096, "N": 2048, "K": 2048, "dtype": "bfloat16"},
    {"T": 8192, "N": 1024, "K": 512, "dtype": "float16"},
    {"T": 512, "N": 512, "K": 512, "dtype": "bfloat16"},
    {"T": 32768, "N": 256, "K": 128, "dtype": "bfloat16"},  # few tiles, a long sum
    {"T": 1000, "N": 776, "K": 1336, "dtype": "float16"},
    {"T": 521, "N": 131, "K": 263, "dtype": "bfloat16"},  # primes
    {"T": 2048, "N": 768, "K": 768, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 3e-2}  # outputs of order one


def reference(dy, x):
    return dy.T @ x, dy.sum(dim=0)


def inputs(T=4096, N=1024, K=1024, dtype=torch.bfloat16, device="cuda"):
    dy = torch.randn(T, N, dtype=dtype, device=device) * T**-0.5
    return dy, torch.randn(T, K, dtype=dtype, device=device)


def itemsize(shape):
    """Bytes of an input's element."""
    return 4 if "float32" in str(shape["dtype"]) else 2
