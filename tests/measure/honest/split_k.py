"""Splits the sum of a product in parts: other rounding, as good.

Looks like: less precision than the problem has
Problem: product
"""

import torch


def kernel(a, b):
    parts = [p @ q for p, q in zip(a.chunk(4, dim=1), b.chunk(4, dim=0), strict=True)]
    return torch.stack(parts).sum(0)
