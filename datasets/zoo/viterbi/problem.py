"""The best score of ending in each state after a chain of steps, for sequences of T steps or fewer.

A step takes the best of all states before, by score and transition, and adds what is observed.
With SKEW > 1 most sequences are short.
"""

import torch

KIND = "scan"
SHAPES = [
    {"B": 4096, "T": 128, "S": 32, "SKEW": 1.0},
    {"B": 20000, "T": 50, "S": 9, "SKEW": 2.0},
    {"B": 2000, "T": 100, "S": 64, "SKEW": 1.0},
    {"B": 1003, "T": 200, "S": 20, "SKEW": 6.0},
    {"B": 30011, "T": 64, "S": 16, "SKEW": 3.0},
    {"B": 512, "T": 150, "S": 48, "SKEW": 1.0},
    {"B": 8192, "T": 40, "S": 64, "SKEW": 4.0},
]
TOLERANCE = {"rtol": 1e-4, "atol": 1e-3}


def inputs(B=4096, T=128, S=32, SKEW=1.0, device="cuda"):
    seen = torch.randn(B, T, S, device=device)
    lengths = (torch.rand(B, device=device) ** SKEW * T).int().clamp_(max=T - 1) + 1
    return seen, torch.randn(S, S, device=device), lengths


def reference(seen, moves, lengths):
    score = seen[:, 0]
    for t in range(1, seen.shape[1]):
        following = (score[:, :, None] + moves).amax(1) + seen[:, t]
        score = torch.where((t < lengths)[:, None], following, score)
    return score
