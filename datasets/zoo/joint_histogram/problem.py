"""How often each pair of two codes occurs: a table of BINS by BINS; SKEW > 1 crowds small codes."""

import torch

KIND = "indexing"
SHAPES = [
    {"N": 1 << 23, "BINS": 64, "SKEW": 1.0},
    {"N": 1 << 22, "BINS": 256, "SKEW": 3.0},
    {"N": 5000011, "BINS": 100, "SKEW": 8.0, "dtype": "int16"},
    {"N": 1 << 22, "BINS": 1000, "SKEW": 1.0, "dtype": "int32"},
    {"N": 2000003, "BINS": 37, "SKEW": 2.0, "dtype": "int32"},
    {"N": 1 << 24, "BINS": 16, "SKEW": 6.0},
    {"N": 300007, "BINS": 200, "SKEW": 1.0},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(N=1 << 23, BINS=64, SKEW=1.0, dtype=torch.uint8, device="cuda"):
    """Two lists of codes; half of the second are near the first, as in images that are aligned."""
    first = torch.rand(N, device=device).pow(SKEW)
    other = torch.rand(N, device=device).pow(SKEW)
    second = torch.where(torch.rand(N, device=device) < 0.5, 0.9 * first + 0.1 * other, other)
    codes = [(x * BINS).clamp_(max=BINS - 1).to(dtype) for x in (first, second)]
    return (*codes, BINS)


def reference(first, second, bins):
    joint = first.int() * bins + second.int()
    return torch.bincount(joint, minlength=bins * bins).int().view(bins, bins)
