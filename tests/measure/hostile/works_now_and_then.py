"""Computes in one call of eight, and gives that answer in the others.

Trick: other behaviour after N calls
Problem: gated
Verdict: wrong
Defence: fresh values at the same address
"""

import torch

state = {"calls": 0, "answer": None}


def kernel(x, w):
    if state["calls"] % 8 == 0 or state["answer"].shape != x.shape:
        state["answer"] = torch.relu(x * w + 0.5)
    state["calls"] += 1
    return state["answer"]
