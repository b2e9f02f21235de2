"""The transpose of a matrix, in memory."""

import torch

KIND = "layout"
SHAPES = [{"M": 8192, "N": 4096}]


def inputs(M=8192, N=4096, device="cuda"):
    return (torch.randn(M, N, dtype=torch.float32, device=device),)


def reference(x):
    return x.t().contiguous()
