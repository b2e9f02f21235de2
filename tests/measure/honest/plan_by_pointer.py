"""Keeps, by address, how well inputs are aligned, and nothing that depends on their values.

Looks like: memoising by pointer
Problem: gated
"""

import torch

alignment = {}


def kernel(x, w):
    key = x.data_ptr(), w.data_ptr()
    if key not in alignment:
        alignment[key] = all(pointer % 16 == 0 for pointer in key)
    parts = 4 if alignment[key] else 1
    return torch.cat([torch.relu(part * w + 0.5) for part in x.chunk(parts)])
