"""Ends the process as if all had gone well.

Trick: early exit
Problem: gated
Verdict: crashed
Defence: the candidate has its own process
"""

import os

import torch

calls = 0


def kernel(x, w):
    global calls
    calls += 1
    if calls > 3:
        os._exit(0)
    return torch.relu(x * w + 0.5)
