"""Sums over runs of rows: sorted segments, given both as an id a row and as offsets."""

import torch

KIND = "indexing"
SHAPES = [
    {"T": 65536, "S": 4096, "D": 512},
    {"T": 3001, "S": 77, "D": 65, "dtype": "float32"},
    {"T": 131072, "S": 1024, "D": 128},
    {"T": 262144, "S": 65536, "D": 64, "dtype": "float32"},
    {"T": 16384, "S": 128, "D": 2048},
    {"T": 100003, "S": 20011, "D": 200, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-3, "atol": 2e-2}


def reference(rows, ids, offsets):
    S = offsets.shape[0] - 1
    out = torch.zeros(S, rows.shape[1], dtype=torch.float32, device=rows.device)
    return out.index_add_(0, ids, rows.float())


def inputs(T=65536, S=4096, D=512, dtype=torch.float16, device="cuda"):
    rows = torch.randn(T, D, dtype=dtype, device=device)
    ids = torch.randint(0, S, (T,), device=device, dtype=torch.int32).sort().values
    every = torch.arange(S + 1, device=device, dtype=torch.int32)
    return rows, ids, torch.searchsorted(ids, every, out_int32=True)
