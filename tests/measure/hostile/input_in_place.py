"""Saves its output's memory: the result overwrites the input.

Trick: in-place input reuse
Problem: gated
Verdict: cheating or wrong
Defence: guard: aliased output
"""


def kernel(x, w):
    return x.mul_(w).add_(0.5).relu_()
