"""Padded sequences packed one after the other; rows past the padded length are zero."""

import torch

KIND = "layout"
# SKEW: 1 for lengths by chance, 3 for some long sequences, 8 where many are all but empty.
SHAPES = [
    {"B": 512, "MEAN": 300, "L": 512, "D": 128, "SKEW": 1},
    {"B": 4096, "MEAN": 50, "L": 100, "D": 64, "SKEW": 3, "dtype": "float32"},
    {"B": 1003, "MEAN": 177, "L": 301, "D": 33, "SKEW": 8, "dtype": "float32"},
    {"B": 64, "MEAN": 1000, "L": 2048, "D": 512, "SKEW": 2, "dtype": "bfloat16"},
    {"B": 50021, "MEAN": 15, "L": 20, "D": 24, "SKEW": 1},
    {"B": 30, "MEAN": 4000, "L": 4001, "D": 251, "SKEW": 1, "dtype": "bfloat16"},
    {"B": 2000, "MEAN": 40, "L": 60, "D": 1024, "SKEW": 4},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(B=512, MEAN=300, L=512, D=128, SKEW=1, dtype=torch.float16, device="cuda"):
    """The padded rows, where each sequence starts in the result, and how many rows that has."""
    T = B * MEAN
    cuts = (torch.rand(B - 1, dtype=torch.float64, device=device) ** SKEW * T).sort().values
    offsets = torch.nn.functional.pad(cuts.to(torch.int32), (1, 1))
    offsets[-1] = T
    return torch.randn(B, L, D, dtype=dtype, device=device), offsets, T


def reference(padded, offsets, total):
    t = torch.arange(total, dtype=torch.int32, device=padded.device)
    sequence = torch.searchsorted(offsets, t, right=True) - 1
    row, length = t - offsets[sequence], padded.shape[1]
    rows = padded[sequence, row.clamp(max=length - 1)]
    return torch.where((row < length)[:, None], rows, 0.0)
