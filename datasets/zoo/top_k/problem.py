"""The K largest of each row in falling order, and where they stand."""

import torch

KIND = "scan"
SHAPES = [
    {"M": 4096, "N": 1024, "K": 8, "dtype": "float32"},
    {"M": 16384, "N": 128, "K": 8, "dtype": "float16"},
    {"M": 512, "N": 32000, "K": 50, "dtype": "float32"},
    {"M": 1000, "N": 777, "K": 3, "dtype": "float32"},
    {"M": 65536, "N": 64, "K": 2, "dtype": "bfloat16"},
    {"M": 64, "N": 32003, "K": 20, "dtype": "float32"},
    {"M": 2048, "N": 2000, "K": 32, "dtype": "float16"},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(M=4096, N=1024, K=8, dtype=torch.float32, device="cuda"):
    # Each row is N different numbers that the dtype can hold, in an order of its own: no ties.
    modulus = {torch.float32: 65521, torch.float16: 2039, torch.bfloat16: 251}[dtype]
    steps = torch.arange(N, device=device, dtype=torch.int64) * 997 % modulus
    rows = torch.randint(0, modulus, (M, 1), device=device)
    factors = torch.randint(1, modulus, (M, 1), device=device)
    return ((steps * factors + rows) % modulus - modulus // 2).to(dtype), K


def reference(x, k):
    values, places = torch.topk(x, k, dim=1)
    return values, places.int()
