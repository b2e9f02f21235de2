"""Counts of how often each of BINS numbers occurs; SKEW > 1 makes small numbers frequent."""

import torch

KIND = "indexing"
SHAPES = [
    {"N": 1 << 24, "BINS": 256, "SKEW": 1.0, "dtype": "uint8"},
    {"N": 1 << 22, "BINS": 256, "SKEW": 4.0, "dtype": "int32"},
    {"N": 1000003, "BINS": 1000, "SKEW": 1.0, "dtype": "int32"},
    {"N": 1 << 23, "BINS": 16, "SKEW": 2.0, "dtype": "uint8"},
    {"N": 100000, "BINS": 64, "SKEW": 1.0, "dtype": "int64"},
    {"N": 1 << 22, "BINS": 4096, "SKEW": 1.0, "dtype": "int32"},
    {"N": 5000011, "BINS": 100, "SKEW": 8.0, "dtype": "int16"},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(N=1 << 24, BINS=256, SKEW=1.0, dtype=torch.uint8, device="cuda"):
    x = torch.rand(N, device=device).pow(SKEW) * BINS
    return x.clamp_(max=BINS - 1).to(dtype), BINS


def reference(x, bins):
    return torch.bincount(x.int(), minlength=bins).int()
