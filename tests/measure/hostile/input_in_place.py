"""Saves its output's memory: the result overwrites the input.

Trick: in-place input reuse
Problem: gated
Verdict: cheating or wrong
Defence: inputs are checked unchanged
"""


def kernel(x, w):
    return x.mul_(w).add_(0.5).relu_()
