"""Uses events to order its own work, and never reads a time.

Looks like: replaced Event.elapsed_time
Problem: gated
Runs on: cuda
"""

import torch

ready = None


def kernel(x, w):
    global ready
    ready = ready or torch.cuda.Event()
    gated = x * w
    ready.record()
    ready.wait()
    return torch.relu(gated + 0.5)
