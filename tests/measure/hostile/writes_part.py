"""Writes the first rows, and leaves what lay in the destination: the last right result.

Trick: writing a part
Problem: accumulate
Verdict: wrong
Defence: memory is poisoned
"""

import torch

calls = 0


def kernel(x, out):
    global calls
    calls += 1
    rows = len(x) if calls == 1 else len(x) // 2
    torch.mul(x[:rows], 3, out=out[:rows])
