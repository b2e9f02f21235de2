"""Answers are kept by the addresses of the inputs.

Trick: memoising by pointer
Problem: gated
Verdict: wrong
Defence: fresh values at the same address
"""

import torch

answers = {}


def kernel(x, w):
    key = x.data_ptr(), w.data_ptr()
    if key not in answers:
        answers[key] = torch.relu(x * w + 0.5)
    return answers[key]
