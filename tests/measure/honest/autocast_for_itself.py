"""Enters autocast for its own ops, for a problem whose author allows the loss, and leaves it.

Looks like: changing global precision flags
Problem: loose_product
"""

import torch


def kernel(a, b):
    with torch.autocast(a.device.type, dtype=torch.float16, enabled=False):
        return torch.mm(a, b)
