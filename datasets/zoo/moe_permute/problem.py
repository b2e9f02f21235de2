"""Tokens copied to the places of their choices, by expert: an exchange before grouped products."""

import torch

KIND = "indexing"
# SKEW: 1 for experts that are liked alike, 3 for favourites, 10 for one that nearly all choose.
SHAPES = [
    {"T": 16384, "E": 8, "TOP": 2, "D": 2048, "SKEW": 1},
    {"T": 4096, "E": 64, "TOP": 6, "D": 1024, "SKEW": 3},
    {"T": 65536, "E": 16, "TOP": 1, "D": 512, "SKEW": 10, "dtype": "float16"},
    {"T": 8192, "E": 128, "TOP": 8, "D": 768, "SKEW": 2, "dtype": "float16"},
    {"T": 10007, "E": 12, "TOP": 3, "D": 501, "SKEW": 5, "dtype": "float32"},
    {"T": 100003, "E": 32, "TOP": 2, "D": 130, "SKEW": 1, "dtype": "float32"},
    {"T": 2048, "E": 8, "TOP": 2, "D": 7168, "SKEW": 3},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(T=16384, E=8, TOP=2, D=2048, SKEW=1, dtype=torch.bfloat16, device="cuda"):
    """Tokens, the choice in each place, each choice's place; choice i is of token i // TOP."""
    chosen = (torch.rand(T * TOP, device=device).pow(SKEW) * E).to(torch.int32)
    choices = chosen.argsort(stable=True)
    places = torch.empty_like(choices)
    places[choices] = torch.arange(T * TOP, device=device)
    x = torch.randn(T, D, dtype=dtype, device=device)
    return x, choices.to(torch.int32), places.to(torch.int32), TOP


def reference(x, choices, places, top):
    return x[choices // top]
