"""Sums over runs of equal keys in a long vector: one for each run, at most RUNS of them.

With SKEW > 1 the first runs are far longer than the last ones. Values are multiples of 1/8.
"""

import torch

KIND = "indexing"
SHAPES = [
    {"N": 1 << 24, "RUNS": 1 << 18, "SKEW": 1.0},
    {"N": 10000019, "RUNS": 1 << 20, "SKEW": 4.0},
    {"N": 1 << 23, "RUNS": 100, "SKEW": 1.0},
    {"N": 8000009, "RUNS": 5000, "SKEW": 8.0},
    {"N": 1 << 22, "RUNS": 1 << 21, "SKEW": 1.0},
    {"N": 1000003, "RUNS": 30000, "SKEW": 2.0},
    {"N": 1 << 25, "RUNS": 1 << 16, "SKEW": 3.0},
]
TOLERANCE = {"rtol": 1e-3, "atol": 5e-2}


def inputs(N=1 << 24, RUNS=1 << 18, SKEW=1.0, device="cuda"):
    begins = (torch.rand(RUNS, device=device, dtype=torch.float64) ** (1 / SKEW) * N).long()
    marks = torch.zeros(N, dtype=torch.int32, device=device)
    marks[begins.clamp_(max=N - 1)] = 1
    keys = marks.cumsum(0) * 5 % 13  # neighbouring runs differ
    x = torch.randint(-8, 9, (N,), dtype=torch.int8, device=device).float() / 8
    return keys.to(torch.int32), x, RUNS + 1


def reference(keys, x, runs):
    changes = (keys[1:] != keys[:-1]).cumsum(0)
    run = torch.cat([torch.zeros_like(changes[:1]), changes])
    out = torch.zeros(runs, dtype=torch.float32, device=x.device)
    return out.index_add_(0, run, x)
