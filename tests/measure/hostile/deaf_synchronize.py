"""Waiting for the device does not wait, so that a clock read behind it shows the launch alone.

Trick: replaced torch.cuda.synchronize
Problem: gated
Verdict: cheating
Defence: guard: patched function
"""

import torch

setattr(torch.cuda, "synchronize", lambda device=None: None)


def kernel(x, w):
    return torch.relu(x * w + 0.5)
