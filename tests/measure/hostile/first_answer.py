"""Computes once, and gives that answer ever after.

Trick: cached outputs
Problem: gated
Verdict: wrong
Defence: fresh values at the same address
"""

import torch

answer = None


def kernel(x, w):
    global answer
    if answer is None or answer.shape != x.shape:
        answer = torch.relu(x * w + 0.5)
    return answer
