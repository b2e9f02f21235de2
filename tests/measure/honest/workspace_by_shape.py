"""Keeps scratch memory for each shape; every call writes all of it anew.

Looks like: cached outputs
Problem: gated
"""

import torch

scratch = {}


def kernel(x, w):
    key = tuple(x.shape), x.device
    if key not in scratch:
        scratch[key] = torch.empty_like(x)
    product = torch.mul(x, w, out=scratch[key])
    return torch.relu(product + 0.5)
