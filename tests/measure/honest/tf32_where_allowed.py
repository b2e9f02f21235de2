"""Sets the flag for tf32, for a problem whose author allows it.

Looks like: changing global precision flags
Problem: loose_product
"""

import torch

torch.backends.cuda.matmul.allow_tf32 = True


def kernel(a, b):
    return a @ b
