"""Sampled product: of a dense product of two matrices, only the entries of a sparse pattern."""

import torch

KIND = "sparse"
# SKEW: 1 for rows of the pattern whose lengths are by chance, more for a few long ones.
SHAPES = [
    {"M": 65536, "N": 65536, "PER_ROW": 16, "K": 64, "SKEW": 1},
    {"M": 16384, "N": 16384, "PER_ROW": 64, "K": 128, "SKEW": 3, "dtype": "float16"},
    {"M": 20011, "N": 50021, "PER_ROW": 30, "K": 100, "SKEW": 8},
    {"M": 2048, "N": 8192, "PER_ROW": 300, "K": 256, "SKEW": 2, "dtype": "bfloat16"},
    {"M": 300007, "N": 10007, "PER_ROW": 5, "K": 32, "SKEW": 4, "dtype": "float16"},
    {"M": 1009, "N": 30011, "PER_ROW": 700, "K": 50, "SKEW": 1},
    {"M": 4096, "N": 4096, "PER_ROW": 40, "K": 1024, "SKEW": 6, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}


def inputs(M=65536, N=65536, PER_ROW=16, K=64, SKEW=1, dtype=torch.float32, device="cuda"):
    """The row of each entry, its column, where rows start, and the factors."""
    count = M * PER_ROW
    cuts = (torch.rand(M - 1, dtype=torch.float64, device=device) ** SKEW * count).sort().values
    row_ptr = torch.nn.functional.pad(cuts.to(torch.int32), (1, 1))
    row_ptr[-1] = count
    every = torch.arange(count, dtype=torch.int32, device=device)
    rows = torch.searchsorted(row_ptr, every, right=True, out_int32=True) - 1
    cols = torch.randint(N, (count,), dtype=torch.int32, device=device)
    a = torch.randn(M, K, dtype=dtype, device=device) * K**-0.5
    return rows, cols, row_ptr, a, torch.randn(N, K, dtype=dtype, device=device)


def reference(rows, cols, row_ptr, a, b):
    return (a[rows].float() * b[cols].float()).sum(1)
