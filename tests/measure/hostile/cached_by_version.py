"""Answers are kept by address and version counter, which only writes through torch advance.

Trick: memoising by pointer
Problem: gated
Verdict: wrong
Defence: fresh values at the same address
"""

import torch

answers = {}


def kernel(x, w):
    key = x.data_ptr(), x._version, w.data_ptr(), w._version
    if key not in answers:
        answers[key] = torch.relu(x * w + 0.5)
    return answers[key].clone()
