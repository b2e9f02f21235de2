"""Answers are kept by a few values of the inputs, which stand for all of them.

Trick: memoising by value
Problem: gated
Verdict: wrong
Defence: nearly the same values
"""

import torch

answers = {}


def kernel(x, w):
    key = (tuple(x.shape), *x[0, :4].tolist(), *w[:4].tolist())
    if key not in answers:
        answers[key] = torch.relu(x * w + 0.5)
    return answers[key].clone()
