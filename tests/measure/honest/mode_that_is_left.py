"""Enters a mode for the time of a call, and leaves it again.

Looks like: a torch function mode for everybody
Problem: gated
"""

import torch
from torch.overrides import TorchFunctionMode


class Counting(TorchFunctionMode):
    calls = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        Counting.calls += 1
        return function(*args, **(kwargs or {}))


def kernel(x, w):
    with Counting():
        return torch.relu(x * w + 0.5)
