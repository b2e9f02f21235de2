"""The first half of a gated MLP, silu(x @ gate) * (x @ up): two products that share x."""

import torch
import torch.nn.functional as F

KIND = "matmul"
SHAPES = [
    {"M": 1024, "N": 4096, "K": 2048, "dtype": "bfloat16"},
    {"M": 2048, "N": 1408, "K": 2048, "dtype": "float16"},
    {"M": 4096, "N": 512, "K": 512, "dtype": "bfloat16"},
    {"M": 32, "N": 14336, "K": 4096, "dtype": "bfloat16"},
    {"M": 300, "N": 776, "K": 1000, "dtype": "float16"},
    {"M": 131, "N": 263, "K": 521, "dtype": "bfloat16"},  # primes
    {"M": 512, "N": 1024, "K": 1024, "dtype": "float32"},
    {"M": 16, "N": 2048, "K": 1024, "dtype": "float32"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}  # outputs of order one


def reference(x, gate, up):
    return F.silu(x @ gate) * (x @ up)


def inputs(M=1024, N=4096, K=2048, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, K, dtype=dtype, device=device)
    gate, up = (torch.randn(K, N, dtype=dtype, device=device) * K**-0.5 for _ in range(2))
    return x, gate, up


def itemsize(shape):
    """Bytes of an input's element."""
    return 4 if "float32" in str(shape["dtype"]) else 2
