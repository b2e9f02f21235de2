"""Imports torch's compiler, which changes some functions of torch's as it loads.

Looks like: patching torch
Problem: gated
"""

import torch
import torch._dynamo

torch._dynamo.config.cache_size_limit = 64


@torch._dynamo.disable
def kernel(x, w):
    return torch.relu(x * w + 0.5)
