"""Chooses a path by the shape: each of them computes all.

Looks like: shrinking work by the shape
Problem: gated
"""

import torch


def kernel(x, w):
    if x.shape[1] % 32 == 0:
        return torch.relu((x.view(len(x), -1, 32) * w.view(-1, 32)).view(x.shape) + 0.5)
    return torch.relu(x * w + 0.5)
