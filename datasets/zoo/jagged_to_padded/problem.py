"""Sequences of different lengths, one after the other, each padded with zeros or cut to L rows."""

import torch

KIND = "layout"
# SKEW: 1 for lengths by chance, 3 for some long sequences, 8 where many are all but empty.
SHAPES = [
    {"B": 512, "MEAN": 200, "L": 512, "D": 128, "SKEW": 1},
    {"B": 4096, "MEAN": 50, "L": 100, "D": 64, "SKEW": 3, "dtype": "float32"},
    {"B": 1003, "MEAN": 77, "L": 301, "D": 33, "SKEW": 8, "dtype": "float32"},
    {"B": 64, "MEAN": 1000, "L": 2048, "D": 512, "SKEW": 2, "dtype": "bfloat16"},
    {"B": 100003, "MEAN": 10, "L": 20, "D": 16, "SKEW": 1},
    {"B": 32, "MEAN": 4000, "L": 4001, "D": 250, "SKEW": 1, "dtype": "bfloat16"},
    {"B": 2000, "MEAN": 30, "L": 60, "D": 1024, "SKEW": 4},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(B=512, MEAN=200, L=512, D=128, SKEW=1, dtype=torch.float16, device="cuda"):
    T = B * MEAN
    cuts = (torch.rand(B - 1, dtype=torch.float64, device=device) ** SKEW * T).sort().values
    offsets = torch.nn.functional.pad(cuts.to(torch.int32), (1, 1))
    offsets[-1] = T
    return torch.randn(T, D, dtype=dtype, device=device), offsets, L


def reference(values, offsets, length):
    place = torch.arange(length, dtype=torch.int32, device=values.device)
    rows = (offsets[:-1, None] + place).clamp(max=values.shape[0] - 1)
    inside = place < offsets.diff()[:, None]
    return torch.where(inside[:, :, None], values[rows], 0.0)
