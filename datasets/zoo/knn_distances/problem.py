"""For each of M points the K smallest squared distances to N others, in rising order."""

import torch

KIND = "reduction"
SHAPES = [
    {"M": 8192, "N": 8192, "D": 3, "K": 4},
    {"M": 4096, "N": 16384, "D": 8, "K": 8},
    {"M": 20000, "N": 3000, "D": 16, "K": 1},
    {"M": 1009, "N": 50021, "D": 3, "K": 8},  # primes
    {"M": 5000, "N": 5000, "D": 32, "K": 4},
    {"M": 30011, "N": 2003, "D": 2, "K": 4, "dtype": "float16"},
    {"M": 300, "N": 100000, "D": 16, "K": 1, "dtype": "float16"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def inputs(M=8192, N=8192, D=3, K=4, dtype=torch.float32, device="cuda"):
    a = torch.randn(M, D, device=device).to(dtype)
    return a, torch.randn(N, D, device=device).to(dtype), K


def reference(a, b, k):
    a, b = a.float(), b.float()
    norms = a.square().sum(dim=1)[:, None] + b.square().sum(dim=1)[None, :]
    distances = torch.addmm(norms, a, b.t(), alpha=-2)
    return distances.topk(k, dim=1, largest=False, sorted=True).values.clamp_(min=0)
