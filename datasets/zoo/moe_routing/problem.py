"""How many tokens each expert gets, and each choice's place among those of its expert, in order."""

import torch

KIND = "indexing"
# SKEW: 1 for experts that are liked alike, 3 for favourites, 10 for one that nearly all choose.
SHAPES = [
    {"T": 131072, "E": 8, "TOP": 2, "SKEW": 1},
    {"T": 65536, "E": 64, "TOP": 2, "SKEW": 3},
    {"T": 300007, "E": 16, "TOP": 1, "SKEW": 10},
    {"T": 32768, "E": 128, "TOP": 1, "SKEW": 2, "dtype": "int64"},
    {"T": 1000003, "E": 5, "TOP": 2, "SKEW": 1, "dtype": "int64"},
    {"T": 10007, "E": 60, "TOP": 2, "SKEW": 5},
    {"T": 524288, "E": 32, "TOP": 1, "SKEW": 2},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(T=131072, E=8, TOP=2, SKEW=1, dtype=torch.int32, device="cuda"):
    """The experts of each token: one, or two that differ."""
    first = (torch.rand(T, device=device).pow(SKEW) * E).clamp_(max=E - 1).long()
    far = (torch.rand(T, device=device) * (E - 1)).long().clamp_(max=E - 2) + 1
    chosen = [first, (first + far) % E]
    return torch.stack(chosen[:TOP], dim=1).to(dtype), E


def reference(chosen, experts):
    expert = torch.arange(experts, dtype=chosen.dtype, device=chosen.device)
    hits = (chosen.flatten()[:, None] == expert).int()
    places = (hits.cumsum(0, dtype=torch.int32) * hits).sum(1, dtype=torch.int32) - 1
    return hits.sum(0, dtype=torch.int32), places
