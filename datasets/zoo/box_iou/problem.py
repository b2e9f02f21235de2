"""How much each of M boxes overlaps each of N: the intersection's area over the union's."""

import torch

KIND = "elementwise"
SHAPES = [
    {"M": 4096, "N": 16384, "dtype": "float32"},
    {"M": 20000, "N": 10000, "dtype": "float16"},
    {"M": 100, "N": 1000003, "dtype": "float32"},
    {"M": 10007, "N": 9973, "dtype": "float32"},  # primes
    {"M": 50000, "N": 300, "dtype": "bfloat16"},
    {"M": 3000, "N": 3000, "dtype": "float32"},
    {"M": 1, "N": 8000000, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def boxes(count, device):
    """(left, top, right, bottom) of boxes in a square of 100."""
    corner = torch.rand(count, 2, device=device) * 80
    return torch.cat((corner, corner + torch.rand(count, 2, device=device) * 40 + 1), dim=1)


def inputs(M=4096, N=16384, dtype=torch.float32, device="cuda"):
    """Boxes in float32, and the result's dtype."""
    return boxes(M, device), boxes(N, device), dtype


def reference(a, b, dtype):
    low = torch.maximum(a[:, None, :2], b[None, :, :2])
    high = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    both = (high - low).clamp_(min=0).prod(dim=2)
    area_a = (a[:, 2:] - a[:, :2]).prod(dim=1)
    area_b = (b[:, 2:] - b[:, :2]).prod(dim=1)
    return (both / (area_a[:, None] + area_b[None, :] - both)).to(dtype)
