"""Catches the one error that it knows, and says so when it cannot go on.

Looks like: early exit by swallowing exceptions
Problem: gated
"""

import torch


def kernel(x, w):
    try:
        gated = x.view(-1, len(w)) * w
    except RuntimeError as error:
        if "view" not in str(error):
            raise
        gated = x.reshape(-1, len(w)) * w
    return torch.relu(gated + 0.5).reshape(x.shape)
