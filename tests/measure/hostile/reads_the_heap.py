"""Looks for the expected output among all objects that Python knows.

Trick: reading the expected output from memory
Problem: gated
Verdict: wrong
Defence: the expected output is in another process
"""

import gc

import torch


def kernel(x, w):
    for result in gc.get_objects():
        if type(result) is torch.Tensor and result.shape == x.shape and (result >= 0).all():
            return result.clone()
    return torch.zeros_like(x)
