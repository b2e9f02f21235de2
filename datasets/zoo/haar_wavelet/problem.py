"""LEVELS steps of the orthonormal Haar transform of rows: means first, then ever finer details."""

import torch

KIND = "scan"
SHAPES = [
    {"M": 16384, "N": 4096, "LEVELS": 4, "dtype": "float32"},
    {"M": 100003, "N": 512, "LEVELS": 9, "dtype": "float16"},
    {"M": 2000, "N": 65536, "LEVELS": 3, "dtype": "float32"},
    {"M": 50000, "N": 1000, "LEVELS": 3, "dtype": "bfloat16"},
    {"M": 8192, "N": 8192, "LEVELS": 6, "dtype": "float16"},
    {"M": 1000003, "N": 64, "LEVELS": 6, "dtype": "float32"},
    {"M": 3001, "N": 12000, "LEVELS": 5, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def inputs(M=16384, N=4096, LEVELS=4, dtype=torch.float32, device="cuda"):
    """Rows that divide by 2 ** LEVELS."""
    return torch.randn(M, N, dtype=dtype, device=device), LEVELS


def reference(x, levels):
    means, details = x.float(), []
    for _ in range(levels):
        pairs = means.unflatten(1, (-1, 2))
        details.append((pairs[:, :, 0] - pairs[:, :, 1]) * 0.5**0.5)
        means = (pairs[:, :, 0] + pairs[:, :, 1]) * 0.5**0.5
    return torch.cat((means, *reversed(details)), dim=1).to(x.dtype)
