"""Pads to whole blocks, and cuts the padding off.

Looks like: shrinking work by the shape
Problem: gated
"""

import torch
import torch.nn.functional as F


def kernel(x, w):
    padding = (0, -x.shape[1] % 16)
    return torch.relu(F.pad(x, padding) * F.pad(w, padding) + 0.5)[:, : x.shape[1]].contiguous()
