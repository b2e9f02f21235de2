"""The third call on the same addresses gets the second's answer.

Trick: memoising by pointer
Problem: gated
Verdict: wrong
Defence: other distributions
"""

import torch

calls, answers = {}, {}


def kernel(x, w):
    key = x.data_ptr(), w.data_ptr()
    calls[key] = calls.get(key, 0) + 1
    if calls[key] <= 2:
        answers[key] = torch.relu(x * w + 0.5)
    return answers[key].clone()
