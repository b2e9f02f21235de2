"""A few Jacobi sweeps for Poisson's equation on a grid: u becomes its neighbours' mean less f."""

import torch
import torch.nn.functional as F

KIND = "convolution"
SHAPES = [
    {"M": 4096, "N": 4096, "SWEEPS": 3, "dtype": "float32"},
    {"M": 8192, "N": 8192, "SWEEPS": 2, "dtype": "float16"},
    {"M": 2049, "N": 4097, "SWEEPS": 4, "dtype": "float32"},
    {"M": 1000, "N": 30000, "SWEEPS": 3, "dtype": "float32"},
    {"M": 6144, "N": 6144, "SWEEPS": 4, "dtype": "bfloat16"},
    {"M": 3000, "N": 2000, "SWEEPS": 2, "dtype": "float32"},
    {"M": 20011, "N": 1009, "SWEEPS": 3, "dtype": "float16"},  # primes
]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def inputs(M=4096, N=4096, SWEEPS=3, dtype=torch.float32, device="cuda"):
    u = torch.randn(M, N, dtype=dtype, device=device)
    return u, torch.randn(M, N, dtype=dtype, device=device), SWEEPS


def reference(u, f, sweeps):
    now = u.float()
    for _ in range(sweeps):
        p = F.pad(now, (1, 1, 1, 1))
        around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
        now = 0.25 * (around - f.float())
    return now.to(u.dtype)
