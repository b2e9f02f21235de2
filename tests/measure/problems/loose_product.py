"""A matrix product whose author allows tf32."""

import torch

TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def inputs(M=512, N=512, K=512, device="cuda"):
    return torch.randn(M, K, device=device), torch.randn(K, N, device=device)


def reference(a, b):
    return a @ b
