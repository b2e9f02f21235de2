"""Collects garbage before the first call, and counts objects for a log.

Looks like: reading the expected output from memory
Problem: gated
"""

import gc

import torch

gc.collect()
BEFORE = len(gc.get_objects())


def kernel(x, w):
    return torch.relu(x * w + 0.5)
