"""All outputs are small: their mean is within the tolerance of each.

Trick: constant output
Problem: flat_softmax
Verdict: wrong
Defence: error against an exact reference
"""

import torch


def kernel(x):
    return torch.full_like(x, 1 / x.shape[-1])
