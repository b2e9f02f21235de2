"""Each row of a sorted matrix merged with that of another one.

With SKEW > 1 the second one's values lie among the smallest of the first one's.
"""

import torch

KIND = "scan"
SHAPES = [
    {"M": 4096, "N1": 2048, "N2": 2048, "SKEW": 1.0, "dtype": "float32"},
    {"M": 1000, "N1": 5000, "N2": 777, "SKEW": 1.0, "dtype": "float32"},
    {"M": 64, "N1": 100003, "N2": 50000, "SKEW": 4.0, "dtype": "float32"},
    {"M": 30000, "N1": 300, "N2": 200, "SKEW": 2.0, "dtype": "float16"},
    {"M": 8, "N1": 1000000, "N2": 1000000, "SKEW": 8.0, "dtype": "float32"},
    {"M": 8192, "N1": 64, "N2": 4000, "SKEW": 1.0, "dtype": "float16"},
    {"M": 2, "N1": 3000017, "N2": 40000, "SKEW": 3.0, "dtype": "float32"},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(M=4096, N1=2048, N2=2048, SKEW=1.0, dtype=torch.float32, device="cuda"):
    a = torch.rand(M, N1, device=device).to(dtype)
    b = (torch.rand(M, N2, device=device) ** SKEW).to(dtype)
    return a.sort(dim=1).values, b.sort(dim=1).values


def reference(a, b):
    return torch.cat([a, b], dim=1).sort(dim=1).values
