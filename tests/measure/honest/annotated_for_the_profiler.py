"""Names its parts for whoever profiles it.

Looks like: patched profiler
Problem: gated
"""

import torch
from torch.profiler import record_function


def kernel(x, w):
    with record_function("gate"):
        gated = x * w
    with record_function("activation"):
        return torch.relu(gated + 0.5)
