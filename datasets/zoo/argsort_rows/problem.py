"""Where the elements of each row stand once it is sorted, the smallest first.

Integers below RANGE have equals, which stay in order; with SKEW > 1 small ones are frequent.
"""

import torch

KIND = "scan"
SHAPES = [
    {"M": 8192, "N": 1024, "RANGE": 32768, "SKEW": 1.0},
    {"M": 4000, "N": 777, "RANGE": 100, "SKEW": 4.0},
    {"M": 65536, "N": 128, "RANGE": 256, "SKEW": 1.0},
    {"M": 2048, "N": 2048, "RANGE": 4096, "SKEW": 2.0},
    {"M": 1000, "N": 4000, "RANGE": 32768, "SKEW": 8.0},
    {"M": 30011, "N": 300, "RANGE": 16, "SKEW": 1.0},
    {"M": 500, "N": 4096, "RANGE": 64, "SKEW": 3.0},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(M=8192, N=1024, RANGE=32768, SKEW=1.0, device="cuda"):
    keys = torch.rand(M, N, device=device) ** SKEW * RANGE
    return keys.clamp_(max=RANGE - 1).to(torch.int32), RANGE


def reference(keys, below):
    return keys.sort(dim=1, stable=True).indices.int()
