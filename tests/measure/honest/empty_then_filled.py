"""Allocates without initialising, and then writes every element.

Looks like: writing nothing
Problem: gated
"""

import torch


def kernel(x, w):
    out = torch.empty_like(x)
    torch.mul(x, w, out=out)
    return out.add_(0.5).relu_()
