"""A class of its own, with a method named like one of torch's.

Looks like: replaced Event.elapsed_time
Problem: gated
"""

import torch


class Event:
    def elapsed_time(self, end):
        return 0.0


Event.elapsed_time = lambda self, end: 1.0  # its own, nobody else's


def kernel(x, w):
    return torch.relu(x * w + 0.5)
