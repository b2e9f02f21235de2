"""The potential of N weighted bodies at each of them: sums of weight / softened distance."""

import torch

KIND = "reduction"
SOFTENING = 1e-2
SHAPES = [
    {"N": 16384, "DIMENSIONS": 3, "dtype": "float32"},
    {"N": 8192, "DIMENSIONS": 2, "dtype": "float32"},
    {"N": 4001, "DIMENSIONS": 3, "dtype": "float32"},
    {"N": 1000, "DIMENSIONS": 2, "dtype": "float32"},
    {"N": 12000, "DIMENSIONS": 2, "dtype": "float16"},
    {"N": 6007, "DIMENSIONS": 3, "dtype": "bfloat16"},
    {"N": 2048, "DIMENSIONS": 3, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-3}


def inputs(N=16384, DIMENSIONS=3, dtype=torch.float32, device="cuda"):
    places = torch.randn(DIMENSIONS, N, dtype=dtype, device=device)
    return places, torch.rand(N, dtype=dtype, device=device)


def reference(places, weights):
    places, weights = places.float(), weights.float()
    squares = sum((axis[:, None] - axis[None, :]).square() for axis in places)
    return torch.rsqrt(squares + SOFTENING) @ weights / len(weights)
