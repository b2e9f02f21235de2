"""Reads the storage as if every input were contiguous.

Trick: non-contiguous surprises
Problem: columns
Fools: nobody
Verdict: wrong
Defence: fresh values at the same address
"""

import torch


def kernel(x):
    return torch.as_strided(x, x.shape, (x.shape[1], 1)) * 2
