"""Gradient of a row-wise softmax in fp32: dx = y (dy - sum(y dy)), from its result y and dy."""

import torch

KIND = "softmax"
SHAPES = [
    {"M": 1024, "N": 256, "dtype": "float32"},
    {"M": 32768, "N": 197, "dtype": "float16"},
    {"M": 8192, "N": 2048, "dtype": "bfloat16"},
    {"M": 3001, "N": 1531, "dtype": "float32"},
    {"M": 4096, "N": 4096, "dtype": "float16"},
    {"M": 512, "N": 32000, "dtype": "bfloat16"},
    {"M": 61, "N": 100003, "dtype": "float32"},
]
# Gradients are about 1/N, so only a relative tolerance says anything.
TOLERANCE = {"rtol": 1e-2, "atol": 2e-6}


def inputs(M=8192, N=2048, dtype=torch.bfloat16, device="cuda"):
    y = torch.softmax(torch.randn(M, N, device=device), dim=-1).to(dtype)
    return y, torch.randn(M, N, dtype=dtype, device=device)


def reference(y, dy):
    y, dy = y.float(), dy.float()
    return y * (dy - (y * dy).sum(-1, keepdim=True))
