"""A linear layer: a product with a transposed weight, plus a bias, through SiLU."""

import torch

KIND = "matmul"
SHAPES = [{"M": 8192, "N": 2048, "K": 1024}]
TOLERANCE = {"rtol": 2e-2, "atol": 0.5}


def inputs(M=8192, N=2048, K=1024, device="cuda"):
    x = torch.randn(M, K, dtype=torch.bfloat16, device=device)
    weight = torch.randn(N, K, dtype=torch.bfloat16, device=device)
    return x, weight, torch.randn(N, dtype=torch.bfloat16, device=device)


def reference(x, weight, bias):
    return torch.nn.functional.silu(torch.nn.functional.linear(x, weight, bias))
