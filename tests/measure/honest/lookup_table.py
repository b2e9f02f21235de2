"""A table of constants is made once: it depends on no input.

Looks like: precomputing in import
Problem: gated
"""

import torch

HALVES = torch.full((1,), 0.5)


def kernel(x, w):
    return torch.relu(x * w + HALVES.to(x.device))
