"""Returns a view of memory that it made.

Looks like: returning views of inputs
Problem: turned
"""

import torch


def kernel(x):
    out = torch.empty(x.shape[1], x.shape[0] + 8, device=x.device)
    padded = out[:, : x.shape[0]]
    padded.copy_(x.t())
    return padded
