"""A sparse matrix as a list of entries (COO), in the order of rows or in none, times a vector."""

import torch

KIND = "sparse"
# SKEW crowds the first rows; SORTED lists entries by row.
SHAPES = [
    {"M": 100000, "N": 100000, "NNZ": 1 << 22, "SKEW": 1.0, "SORTED": 1},
    {"M": 100000, "N": 100000, "NNZ": 1 << 22, "SKEW": 3.0, "SORTED": 0},
    {"M": 5003, "N": 20011, "NNZ": 1000003, "SKEW": 10.0, "SORTED": 1, "dtype": "float16"},
    {"M": 5003, "N": 20011, "NNZ": 1000003, "SKEW": 10.0, "SORTED": 0, "dtype": "float16"},
    {"M": 1000000, "N": 1000, "NNZ": 8000000, "SKEW": 1.0, "SORTED": 0},
    {"M": 300, "N": 1000000, "NNZ": 6000011, "SKEW": 2.0, "SORTED": 1, "dtype": "bfloat16"},
    {"M": 50021, "N": 50021, "NNZ": 300007, "SKEW": 4.0, "SORTED": 1},
]
TOLERANCE = {"rtol": 5e-3, "atol": 1e-1}  # a row may have a million terms, added in any order


def inputs(
    M=100000, N=100000, NNZ=1 << 22, SKEW=1.0, SORTED=1, dtype=torch.float32, device="cuda"
):  # fmt: skip
    rows = (torch.rand(NNZ, device=device).pow(SKEW) * M).clamp_(max=M - 1).to(torch.int32)
    rows = rows.sort().values if SORTED else rows
    cols = torch.randint(N, (NNZ,), dtype=torch.int32, device=device)
    values = torch.randn(NNZ, dtype=dtype, device=device)
    return rows, cols, values, torch.randn(N, dtype=dtype, device=device), M


def reference(rows, cols, values, x, height):
    out = torch.zeros(height, dtype=torch.float32, device=values.device)
    return out.index_add_(0, rows, values.float() * x[cols].float())
