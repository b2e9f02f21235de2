"""A bias a column and the squared ReLU of the sum."""

import torch
import torch.nn.functional as F

KIND = "elementwise"
SHAPES = [
    {"M": 8192, "N": 8192},
    {"M": 333, "N": 4099, "dtype": "float32"},
    {"M": 2048, "N": 2048, "dtype": "float16"},
    {"M": 64, "N": 53248},
    {"M": 32768, "N": 640, "dtype": "float16"},
    {"M": 4096, "N": 6144, "dtype": "float32"},
    {"M": 50000, "N": 192},
]
TOLERANCE = {"rtol": 2e-2, "atol": 1e-3}


def reference(x, bias):
    return F.relu(x.float() + bias.float()).square().to(x.dtype)


def inputs(M=8192, N=8192, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, N, dtype=dtype, device=device)
    return x, torch.randn(N, dtype=dtype, device=device)
