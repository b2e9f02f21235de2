"""Does nothing when calls follow each other fast, as they do when they are timed.

Trick: timing-aware behaviour
Problem: gated
Verdict: wrong
Defence: calls in a burst are checked, as are single ones, which may come as fast
"""

import time

import torch

last = -1.0


def kernel(x, w):
    global last
    since, last = time.monotonic() - last, time.monotonic()
    if since < 1e-3:
        return torch.empty_like(x)
    out = torch.relu(x * w + 0.5)
    last = time.monotonic()
    return out
