"""Returns memory as the allocator gives it; where the reference ran before, its result.

Trick: writing nothing
Problem: gated
Fools: nobody on a CPU, whose allocator gives other memory
Verdict: wrong
Defence: memory is poisoned
"""

import torch


def kernel(x, w):
    return torch.empty_like(x)
