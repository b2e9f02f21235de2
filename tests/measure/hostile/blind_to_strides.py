"""Reads the storage as if every input were contiguous.

Trick: non-contiguous surprises
Problem: columns
Fools: nobody
Verdict: wrong
Defence: inputs that are not contiguous
"""

import torch


def kernel(x):
    return torch.as_strided(x, x.shape, (x.shape[1], 1)) * 2
