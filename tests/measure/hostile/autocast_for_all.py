"""Autocast is entered and never left: a reference in the same process is as imprecise.

Trick: changing global precision flags
Problem: product
Verdict: wrong
Defence: the reference runs in another process
"""

import torch

for device in ("cpu", "cuda"):
    torch.autocast(device, dtype=torch.bfloat16).__enter__()


def kernel(a, b):
    return (a @ b).float()
