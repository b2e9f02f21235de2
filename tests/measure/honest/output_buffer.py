"""Returns the same buffer from each call, as a captured graph does, with a new result in it.

Looks like: cached outputs
Problem: gated
"""

import torch

buffers = {}


def kernel(x, w):
    out = buffers.setdefault(tuple(x.shape), torch.empty_like(x))
    torch.addcmul(torch.tensor(0.5, device=x.device), x, w, out=out)
    return out.relu_()
