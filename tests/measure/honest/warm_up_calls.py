"""Takes the careful path in its first calls, and the quick one afterwards: both compute.

Looks like: other behaviour after N calls
Problem: gated
"""

import torch

calls = 0


def kernel(x, w):
    global calls
    calls += 1
    if calls <= 2:
        return torch.relu(x.contiguous() * w.contiguous() + 0.5)
    return torch.relu(x * w + 0.5)
