"""GELU of every element, the exact form x Φ(x), as activations of a feed-forward layer."""

import torch
import torch.nn.functional as F

KIND = "elementwise"
SHAPES = [
    {"M": 256, "N": 1024},
    {"M": 1023, "N": 5003},
    {"M": 4096, "N": 4096, "dtype": "float32"},
    {"M": 4096, "N": 4096, "dtype": "float16"},
    {"M": 4096, "N": 14336},
    {"M": 16384, "N": 3072, "dtype": "float16"},
    {"M": 37, "N": 131072},
    {"M": 65536, "N": 257, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-3}


def reference(x):
    return F.gelu(x)


def inputs(M=4096, N=14336, dtype=torch.bfloat16, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device),)
