"""Has something to do when the process ends.

Looks like: early exit
Problem: gated
"""

import atexit

import torch

atexit.register(print, "the end", end="")


def kernel(x, w):
    return torch.relu(x * w + 0.5)
