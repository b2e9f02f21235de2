"""Subtracts each row's maximum, and divides once.

Looks like: constant output
Problem: flat_softmax
"""

import torch


def kernel(x):
    powers = torch.exp(x - x.amax(dim=-1, keepdim=True))
    return powers * (1 / powers.sum(dim=-1, keepdim=True))
