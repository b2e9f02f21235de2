"""A batch of products of bfloat16 matrices, accumulated in float32."""

import torch

KIND = "matmul"
SHAPES = [{"B": 32, "M": 1024, "N": 1024, "K": 512}]
TOLERANCE = {"rtol": 2e-2, "atol": 0.5}


def inputs(B=32, M=1024, N=1024, K=512, device="cuda"):
    a = torch.randn(B, M, K, dtype=torch.bfloat16, device=device)
    return a, torch.randn(B, K, N, dtype=torch.bfloat16, device=device)


def reference(a, b):
    return torch.bmm(a, b)
