"""Chooses between two variants by Triton's own benchmark function, at the first call of a shape.

Looks like: patching triton
Problem: gated
Runs on: cuda
"""

import torch
from triton.testing import do_bench

best = {}


def whole(x, w):
    return torch.relu(x * w + 0.5)


def in_place(x, w):
    return (x * w).add_(0.5).relu_()


def kernel(x, w):
    key = tuple(x.shape)
    if key not in best:
        best[key] = min((whole, in_place), key=lambda variant: do_bench(lambda: variant(x, w)))
    return best[key](x, w)
