"""A result that is a view of its input, as the problem has it."""

import torch


def inputs(M=4096, N=4096, device="cuda"):
    return (torch.randn(M, N, device=device),)


def reference(x):
    return x[:, ::2]
