"""The K-th smallest value of each row, K given in thousandths of the row's length.

With SKEW > 1 most values lie close to 0, so that their leading bits are alike.
"""

import torch

KIND = "reduction"
SHAPES = [
    {"M": 4096, "N": 4096, "PER_MILLE": 500, "SKEW": 1.0, "dtype": "float32"},
    {"M": 1000, "N": 3001, "PER_MILLE": 990, "SKEW": 3.0, "dtype": "float32"},
    {"M": 32768, "N": 512, "PER_MILLE": 100, "SKEW": 1.0, "dtype": "float16"},
    {"M": 128, "N": 100003, "PER_MILLE": 950, "SKEW": 8.0, "dtype": "float32"},
    {"M": 2048, "N": 16384, "PER_MILLE": 250, "SKEW": 1.0, "dtype": "float16"},
    {"M": 16, "N": 1000000, "PER_MILLE": 500, "SKEW": 2.0, "dtype": "float32"},
    {"M": 8192, "N": 2000, "PER_MILLE": 20, "SKEW": 6.0, "dtype": "float32"},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(M=4096, N=4096, PER_MILLE=500, SKEW=1.0, dtype=torch.float32, device="cuda"):
    x = torch.randn(M, N, device=device)
    return (x * x.abs() ** (SKEW - 1)).to(dtype), 1 + (N - 1) * PER_MILLE // 1000


def reference(x, k):
    return x.kthvalue(k, dim=1).values
