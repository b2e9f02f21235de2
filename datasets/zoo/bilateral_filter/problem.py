"""A blur that keeps edges: weights fall with the distance and with the difference of values."""

import torch
import torch.nn.functional as F

KIND = "convolution"
SHAPES = [
    {"B": 2, "H": 2160, "W": 3840, "R": 2, "dtype": "float32"},
    {"B": 1, "H": 4096, "W": 4096, "R": 3, "dtype": "float16"},
    {"B": 8, "H": 512, "W": 512, "R": 4, "dtype": "float32"},
    {"B": 3, "H": 1079, "W": 1919, "R": 1, "dtype": "bfloat16"},
    {"B": 1, "H": 1500, "W": 1001, "R": 4, "dtype": "float32"},
    {"B": 32, "H": 256, "W": 256, "R": 2, "dtype": "float16"},
    {"B": 1, "H": 997, "W": 6007, "R": 3, "dtype": "float32"},  # primes
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def inputs(B=2, H=2160, W=3840, R=2, dtype=torch.float32, device="cuda"):
    """Images, the reach, and what the squares of a distance and of a difference are taken by."""
    return torch.rand(B, H, W, dtype=dtype, device=device), R, 0.5 / R**2, 8.0


def reference(x, reach, per_distance, per_difference):
    H, W = x.shape[1:]
    here = x.float()
    around = F.pad(here[:, None], (reach, reach, reach, reach), mode="replicate")[:, 0]
    total = torch.zeros_like(here)
    weights = torch.zeros_like(here)
    for i in range(2 * reach + 1):
        for j in range(2 * reach + 1):
            there = around[:, i : i + H, j : j + W]
            apart = per_distance * ((i - reach) ** 2 + (j - reach) ** 2)
            weight = torch.exp(-per_difference * (there - here).square() - apart)
            total += weight * there
            weights += weight
    return (total / weights).to(x.dtype)
