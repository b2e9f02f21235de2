"""Rows of keys sorted, the smallest first, each with a value that follows it. No keys are equal."""

import torch

KIND = "scan"
SHAPES = [
    {"M": 8192, "N": 1024, "dtype": "float32"},
    {"M": 3000, "N": 777, "dtype": "float16"},
    {"M": 65536, "N": 64, "dtype": "float32"},
    {"M": 2048, "N": 2048, "dtype": "float32"},
    {"M": 30000, "N": 200, "dtype": "float16"},
    {"M": 500, "N": 4001, "dtype": "float32"},
    {"M": 100003, "N": 31, "dtype": "float32"},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(M=8192, N=1024, dtype=torch.float32, device="cuda"):
    # Each row is N different numbers that the dtype can hold, in an order of its own.
    modulus = 2039 if dtype == torch.float16 else 65521
    steps = torch.arange(N, device=device) * 997 % modulus
    shifts = torch.randint(0, modulus, (M, 1), device=device)
    factors = torch.randint(1, modulus, (M, 1), device=device)
    keys = ((steps * factors + shifts) % modulus - modulus // 2).to(dtype)
    return keys, torch.randn(M, N, device=device)


def reference(keys, values):
    keys, order = keys.sort(dim=1, stable=True)
    return keys, values.gather(1, order)
