"""Looks for the expected output among all objects that Python knows.

Trick: reading the expected output from memory
Problem: gated
Verdict: wrong
Defence: the expected output is in another process
"""

import gc

import torch


def kernel(x, w):
    for item in gc.get_objects():
        if type(item) is torch.Tensor and item.shape == x.shape and (item >= 0).all():
            return item.clone()
    return torch.zeros_like(x)
