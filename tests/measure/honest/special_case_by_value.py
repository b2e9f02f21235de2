"""Looks at a value to choose a path; each of them is right.

Looks like: memoising by value
Problem: gated
"""

import torch


def kernel(x, w):
    if not bool(w.any()):  # a gate that is shut everywhere
        return torch.full_like(x, 0.5)
    return torch.relu(x * w + 0.5)
