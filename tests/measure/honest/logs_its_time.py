"""Keeps a list of how long its calls took, as some do while they develop.

Looks like: replaced clock
Problem: gated
"""

import time

import torch

took = []


def kernel(x, w):
    start = time.perf_counter()
    out = torch.relu(x * w + 0.5)
    took.append(time.perf_counter() - start)
    return out
