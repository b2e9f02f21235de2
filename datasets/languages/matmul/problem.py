"""A product of two matrices of bfloat16, accumulated in float32."""

import torch

KIND = "matmul"
SHAPES = [{"M": 4096, "N": 4096, "K": 4096}]
TOLERANCE = {"rtol": 2e-2, "atol": 1.0}


def inputs(M=4096, N=4096, K=4096, device="cuda"):
    a = torch.randn(M, K, dtype=torch.bfloat16, device=device)
    return a, torch.randn(K, N, dtype=torch.bfloat16, device=device)


def reference(a, b):
    return a @ b
