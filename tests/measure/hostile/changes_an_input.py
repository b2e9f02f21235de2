"""Each call changes an input, by less than any tolerance sees.

Trick: in-place input reuse
Problem: gated
Verdict: wrong
Defence: inputs are checked unchanged
"""

import torch


def kernel(x, w):
    out = torch.relu(x * w + 0.5)
    w.mul_(1.0 + 1e-6)
    return out
