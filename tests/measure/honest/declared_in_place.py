"""Writes into an argument, as the problem asks.

Looks like: in-place input reuse
Problem: accumulate
"""


def kernel(x, out):
    out.copy_(x).mul_(3)
