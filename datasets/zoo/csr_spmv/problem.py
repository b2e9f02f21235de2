"""A sparse matrix in compressed rows (CSR) times a vector."""

import torch

KIND = "sparse"
# SKEW: 0 for rows of one length, 1 for chance, 3 for a few long rows among many short ones.
SHAPES = [
    {"M": 262144, "N": 262144, "PER_ROW": 16, "SKEW": 1, "dtype": "float32"},
    {"M": 65536, "N": 65536, "PER_ROW": 64, "SKEW": 0, "dtype": "float32"},
    {"M": 16384, "N": 16384, "PER_ROW": 512, "SKEW": 1, "dtype": "bfloat16"},
    {"M": 100003, "N": 50021, "PER_ROW": 7, "SKEW": 3, "dtype": "float32"},
    {"M": 1000, "N": 200000, "PER_ROW": 3001, "SKEW": 1, "dtype": "float16"},
    {"M": 4096, "N": 4096, "PER_ROW": 32, "SKEW": 3, "dtype": "float32"},
    {"M": 500009, "N": 1009, "PER_ROW": 3, "SKEW": 1, "dtype": "bfloat16"},
    {"M": 37, "N": 5000, "PER_ROW": 1777, "SKEW": 0, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def inputs(M=262144, N=262144, PER_ROW=16, SKEW=1, dtype=torch.float32, device="cuda"):
    count = M * PER_ROW
    if SKEW:  # rows end at random places, closer together at the front the greater SKEW is
        cuts = (torch.rand(M - 1, dtype=torch.float64, device=device) ** SKEW * count).sort().values
    else:
        cuts = torch.arange(1, M, dtype=torch.float64, device=device) * PER_ROW
    row_ptr = torch.nn.functional.pad(cuts.to(torch.int32), (1, 1))
    row_ptr[-1] = count
    cols = torch.randint(N, (count,), dtype=torch.int32, device=device)
    values = torch.randn(count, dtype=dtype, device=device) * PER_ROW**-0.5
    return row_ptr, cols, values, torch.randn(N, dtype=dtype, device=device)


def reference(row_ptr, cols, values, x):
    places = torch.arange(values.numel(), dtype=row_ptr.dtype, device=values.device)
    rows = torch.searchsorted(row_ptr, places, right=True) - 1
    out = torch.zeros(row_ptr.numel() - 1, dtype=torch.float32, device=values.device)
    return out.index_add(0, rows, values.float() * x[cols].float()).to(x.dtype)
