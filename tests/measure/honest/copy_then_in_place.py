"""Works in place, on a copy of its own.

Looks like: in-place input reuse
Problem: gated
"""


def kernel(x, w):
    return x.clone().mul_(w).add_(0.5).relu_()
