"""Rows added into the rows of a float32 table that an index names, in any order."""

import torch

KIND = "indexing"
SHAPES = [
    {"T": 32768, "S": 8192, "D": 512},
    {"T": 65536, "S": 256, "D": 256},
    {"T": 3001, "S": 1009, "D": 129, "dtype": "float32"},
    {"T": 8192, "S": 4096, "D": 2048},
    {"T": 262144, "S": 65536, "D": 64, "dtype": "float32"},
    {"T": 16384, "S": 512, "D": 1024},
]
TOLERANCE = {"rtol": 1e-3, "atol": 1e-2}


def reference(rows, index, like):
    return torch.zeros_like(like).index_add_(0, index, rows.float())


def inputs(T=32768, S=8192, D=512, dtype=torch.float16, device="cuda"):
    rows = torch.randn(T, D, dtype=dtype, device=device)
    index = torch.randint(0, S, (T,), device=device)
    return rows, index, torch.empty(S, D, dtype=torch.float32, device=device)
