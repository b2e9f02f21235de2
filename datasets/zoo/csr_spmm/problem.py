"""A sparse matrix in compressed rows (CSR) times a dense one."""

import torch

KIND = "sparse"
# SKEW: 0 for rows of one length, 1 for chance, 3 and more for a few long rows among many short.
SHAPES = [
    {"M": 65536, "N": 65536, "PER_ROW": 16, "D": 64, "SKEW": 1},
    {"M": 16384, "N": 16384, "PER_ROW": 64, "D": 128, "SKEW": 0, "dtype": "float16"},
    {"M": 20011, "N": 50021, "PER_ROW": 30, "D": 100, "SKEW": 4},
    {"M": 4096, "N": 8192, "PER_ROW": 200, "D": 256, "SKEW": 2, "dtype": "bfloat16"},
    {"M": 200003, "N": 10007, "PER_ROW": 5, "D": 32, "SKEW": 8},
    {"M": 1000, "N": 30000, "PER_ROW": 500, "D": 33, "SKEW": 1, "dtype": "float16"},
    {"M": 8192, "N": 8192, "PER_ROW": 40, "D": 512, "SKEW": 6, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 3e-2}  # a long row has thousands of terms


def inputs(M=65536, N=65536, PER_ROW=16, D=64, SKEW=1, dtype=torch.float32, device="cuda"):
    count = M * PER_ROW
    if SKEW:  # rows end at random places, closer together at the front the greater SKEW is
        cuts = (torch.rand(M - 1, dtype=torch.float64, device=device) ** SKEW * count).sort().values
    else:
        cuts = torch.arange(1, M, dtype=torch.float64, device=device) * PER_ROW
    row_ptr = torch.nn.functional.pad(cuts.to(torch.int32), (1, 1))
    row_ptr[-1] = count
    cols = torch.randint(N, (count,), dtype=torch.int32, device=device)
    values = torch.randn(count, dtype=dtype, device=device) * PER_ROW**-0.5
    return row_ptr, cols, values, torch.randn(N, D, dtype=dtype, device=device)


def reference(row_ptr, cols, values, x):
    places = torch.arange(values.numel(), dtype=row_ptr.dtype, device=values.device)
    rows = torch.searchsorted(row_ptr, places, right=True) - 1
    shape = (row_ptr.numel() - 1, x.shape[1])
    out = torch.zeros(shape, dtype=torch.float32, device=values.device)
    return out.index_add_(0, rows, values.float()[:, None] * x[cols].float()).to(x.dtype)
