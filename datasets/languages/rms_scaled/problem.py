"""Rows divided by their root mean square, times a weight a column."""

import torch

KIND = "norm"
SHAPES = [{"M": 16384, "N": 2048}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def inputs(M=16384, N=2048, device="cuda"):
    x = torch.randn(M, N, dtype=torch.bfloat16, device=device)
    return x, torch.rand(N, dtype=torch.bfloat16, device=device)


def reference(x, weight):
    return torch.nn.functional.rms_norm(x, (x.shape[1],), weight, 1e-6)
