"""`torch.compile`, which starts workers, imports half of torch and wraps some of its functions.

Looks like: background processes
Problem: gated
Runs on: cuda
"""

import torch


@torch.compile(dynamic=False)
def kernel(x, w):
    return torch.relu(x * w + 0.5)
