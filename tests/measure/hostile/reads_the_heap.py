"""Looks for the expected output among all objects that Python knows.

Trick: reading the expected output from memory
Problem: gated
Verdict: wrong
Defence: the expected output is in another process
"""

import gc

import torch


def kernel(x, w):
    for found in gc.get_objects():
        if type(found) is torch.Tensor and found.shape == x.shape and (found >= 0).all():
            return found.clone()
    return torch.zeros_like(x)
