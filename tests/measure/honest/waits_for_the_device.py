"""Waits for the device itself: slow, and nothing else.

Looks like: replaced torch.cuda.synchronize
Problem: gated
"""

import torch


def kernel(x, w):
    out = torch.relu(x * w + 0.5)
    if x.is_cuda:
        torch.cuda.synchronize()
    return out
