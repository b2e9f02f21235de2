"""Means of the rows that an index sends to each target, in any order; zero where none arrives."""

import torch

KIND = "indexing"
# SKEW: 1 sends rows evenly, 3 crowds the first targets, 10 sends most to a handful.
SHAPES = [
    {"T": 131072, "S": 16384, "D": 128, "SKEW": 1.0},
    {"T": 65536, "S": 1024, "D": 256, "SKEW": 3.0},
    {"T": 100003, "S": 5003, "D": 65, "SKEW": 10.0, "dtype": "float32"},
    {"T": 500009, "S": 100003, "D": 32, "SKEW": 2.0, "dtype": "float32"},
    {"T": 16384, "S": 300, "D": 1024, "SKEW": 6.0, "dtype": "bfloat16"},
    {"T": 262144, "S": 64, "D": 64, "SKEW": 1.0},
    {"T": 20011, "S": 9001, "D": 517, "SKEW": 1.0, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 5e-3, "atol": 5e-3}


def inputs(T=131072, S=16384, D=128, SKEW=1.0, dtype=torch.float16, device="cuda"):
    index = (torch.rand(T, device=device).pow(SKEW) * S).clamp_(max=S - 1).to(torch.int32)
    return torch.randn(T, D, dtype=dtype, device=device), index, S


def reference(rows, index, targets):
    shape = (targets, rows.shape[1])
    total = torch.zeros(shape, dtype=torch.float32, device=rows.device)
    total.index_add_(0, index, rows.float())
    count = torch.bincount(index, minlength=targets)
    return total / count.clamp(min=1)[:, None]
