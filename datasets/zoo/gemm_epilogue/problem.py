"""A linear layer with all that follows it: activation(x @ w.T + bias) + residual."""

import torch
import torch.nn.functional as F

KIND = "matmul"
SHAPES = [
    {"M": 2048, "N": 8192, "K": 2048, "activation": "gelu", "dtype": "bfloat16"},
    {"M": 4096, "N": 1024, "K": 1024, "activation": "silu", "dtype": "float16"},
    {"M": 512, "N": 512, "K": 512, "activation": "relu", "dtype": "bfloat16"},
    {"M": 128, "N": 2048, "K": 4096, "activation": "gelu", "dtype": "float16"},
    {"M": 1000, "N": 1336, "K": 776, "activation": "silu", "dtype": "bfloat16"},
    {"M": 211, "N": 307, "K": 401, "activation": "relu", "dtype": "float16"},  # primes
    {"M": 1024, "N": 1024, "K": 1024, "activation": "gelu", "dtype": "float32"},
    {"M": 8192, "N": 256, "K": 320, "activation": "relu", "dtype": "float32"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 3e-2}  # outputs of order one, rounded more than once here
ACTIVATIONS = {
    "relu": F.relu,
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}


def reference(x, w, bias, residual, activation):
    return ACTIVATIONS[activation](F.linear(x, w, bias)) + residual


def inputs(M=2048, N=4096, K=2048, activation="gelu", dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, K, dtype=dtype, device=device)
    w = torch.randn(N, K, dtype=dtype, device=device) * K**-0.5
    bias = torch.randn(N, dtype=dtype, device=device)
    return x, w, bias, torch.randn(M, N, dtype=dtype, device=device), activation


def itemsize(shape):
    """Bytes of an input's element."""
    return 4 if "float32" in str(shape["dtype"]) else 2
