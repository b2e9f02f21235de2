"""A profile hook sees every call that Python makes, and stops the clock while its own run.

Trick: sys.setprofile
Problem: gated
Verdict: cheating
Defence: guard: trace hook
"""

import sys

import torch

seen = []


def hook(frame, event, argument):
    if event == "call" and "elapsed" in frame.f_code.co_name:
        seen.append(frame)


def kernel(x, w):
    sys.setprofile(hook)
    return torch.relu(x * w + 0.5)
