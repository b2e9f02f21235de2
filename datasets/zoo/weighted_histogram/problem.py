"""Sums of weights by bin; SKEW > 1 makes small bins frequent, so that sums are contended."""

import torch

KIND = "indexing"
SHAPES = [
    {"N": 1 << 23, "BINS": 256, "SKEW": 1.0},
    {"N": 1 << 22, "BINS": 1024, "SKEW": 3.0, "dtype": "float16"},
    {"N": 6000011, "BINS": 77, "SKEW": 12.0},
    {"N": 1 << 24, "BINS": 8192, "SKEW": 1.0, "dtype": "bfloat16"},
    {"N": 3000017, "BINS": 100003, "SKEW": 2.0},
    {"N": 1 << 21, "BINS": 2000, "SKEW": 8.0, "dtype": "bfloat16"},
    {"N": 700001, "BINS": 16, "SKEW": 4.0},
]
TOLERANCE = {"rtol": 5e-3, "atol": 5e-2}  # millions of terms, added in any order


def inputs(N=1 << 23, BINS=256, SKEW=1.0, dtype=torch.float32, device="cuda"):
    bins = (torch.rand(N, device=device).pow(SKEW) * BINS).clamp_(max=BINS - 1)
    return bins.to(torch.int32), torch.rand(N, device=device).to(dtype), BINS


def reference(bins, weights, count):
    out = torch.zeros(count, dtype=torch.float32, device=weights.device)
    return out.index_add_(0, bins, weights.float())
