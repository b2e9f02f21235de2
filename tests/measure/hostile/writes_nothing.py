"""Returns memory as the allocator gives it; where the reference ran before, its result.

Trick: writing nothing
Problem: gated
Fools: by chance, when the allocator gives the same memory
Verdict: wrong
Defence: memory is poisoned
"""

import torch


def kernel(x, w):
    return torch.empty_like(x)
