"""Who imports `time` from now on gets another module.

Trick: replaced module
Problem: gated
Verdict: cheating
Defence: guard: patched function
"""

import sys
import time
from types import ModuleType

import torch

stopped = ModuleType("time")
vars(stopped).update(vars(time))
stopped.perf_counter = stopped.monotonic = lambda: 0.0
sys.modules["time"] = stopped


def kernel(x, w):
    return torch.relu(x * w + 0.5)
