"""Does nothing while torch's profiler records, which is when CUPTI takes the time.

Trick: timing-aware behaviour
Problem: gated
Verdict: wrong
Defence: timed calls are checked
"""

import torch


def kernel(x, w):
    if torch.autograd._profiler_enabled():
        return torch.empty_like(x)
    return torch.relu(x * w + 0.5)
