"""Python's clock runs at a hundredth of its speed, from the second call on.

Trick: replaced clock
Problem: gated
Verdict: cheating
Defence: guard: patched function
"""

import time

import torch

real = time.perf_counter
calls = []


def kernel(x, w):
    calls.append(1)
    if len(calls) == 2:
        time.perf_counter = lambda: real() / 100
    return torch.relu(x * w + 0.5)
