"""The profiler's events last a tenth of what they lasted.

Trick: patched profiler
Problem: gated
Verdict: cheating
Defence: guard: patched function
"""

import torch
from torch.autograd import profiler

stop = profiler.profile.__exit__


def shortened(self, *error):
    result = stop(self, *error)
    for event in self.function_events or ():
        event.time_range.end = event.time_range.start + event.time_range.elapsed_us() // 10
    return result


profiler.profile.__exit__ = shortened


def kernel(x, w):
    return torch.relu(x * w + 0.5)
