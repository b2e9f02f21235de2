"""How alike two signals are at each of LAGS shifts: mean products of x and of y ahead of it."""

import torch

KIND = "reduction"
SHAPES = [
    {"B": 32, "T": 65536, "LAGS": 64, "dtype": "float32"},
    {"B": 256, "T": 16384, "LAGS": 32, "dtype": "float16"},
    {"B": 4, "T": 500000, "LAGS": 128, "dtype": "float32"},
    {"B": 1000, "T": 5000, "LAGS": 100, "dtype": "float32"},
    {"B": 16, "T": 131072, "LAGS": 16, "dtype": "bfloat16"},
    {"B": 2048, "T": 1001, "LAGS": 65, "dtype": "float16"},
    {"B": 31, "T": 40009, "LAGS": 127, "dtype": "float32"},  # primes
]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def inputs(B=32, T=65536, LAGS=64, dtype=torch.float32, device="cuda"):
    """Signals x of T, and y of LAGS - 1 more."""
    x = torch.randn(B, T, dtype=dtype, device=device)
    y = torch.randn(B, T + LAGS - 1, dtype=dtype, device=device)
    y[:, LAGS // 2 : LAGS // 2 + T] += x  # so that one shift stands out
    return x, y


def reference(x, y):
    T = x.shape[1]
    windows = y.float().unfold(1, T, 1)  # (B, LAGS, T), a view
    return torch.einsum("blt,bt->bl", windows, x.float()) / T
