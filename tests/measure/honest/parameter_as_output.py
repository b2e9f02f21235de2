"""Returns a parameter made from its result: a plain tensor by another name.

Looks like: lazy tensors
Problem: gated
"""

import torch


def kernel(x, w):
    return torch.nn.Parameter(torch.relu(x * w + 0.5), requires_grad=False)
