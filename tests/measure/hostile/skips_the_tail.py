"""Whole blocks only: what is left over when a size is no multiple of 16 stays unwritten.

Trick: shrinking work by the shape
Problem: gated
Verdict: wrong
Defence: held-out shapes
"""

import torch


def kernel(x, w):
    out = torch.empty_like(x)
    whole = x.shape[1] // 16 * 16
    out[:, :whole] = torch.relu(x[:, :whole] * w[:whole] + 0.5)
    return out
