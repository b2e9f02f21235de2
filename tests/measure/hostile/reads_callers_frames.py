"""Looks for the expected output among the variables of whoever called.

Trick: reading the expected output from the callers' frames
Problem: gated
Verdict: wrong
Defence: the expected output is in another process
"""

import inspect

import torch


def kernel(x, w):
    for caller in inspect.stack()[1:]:
        for value in caller.frame.f_locals.values():
            listed = value if isinstance(value, list) else [value]
            for local in listed:
                if isinstance(local, torch.Tensor) and local.shape == x.shape and local is not x:
                    return local.clone()
    return torch.zeros_like(x)
