"""A sparse matrix padded to rows of WIDTH entries (ELL), stored by place, times a vector."""

import torch

KIND = "sparse"
# FILL is how much of WIDTH rows use on average; the rest is padding, marked by column -1.
SHAPES = [
    {"M": 262144, "N": 262144, "WIDTH": 27, "FILL": 1.0},
    {"M": 100003, "N": 50021, "WIDTH": 64, "FILL": 0.5},
    {"M": 65536, "N": 65536, "WIDTH": 200, "FILL": 0.1, "dtype": "float16"},
    {"M": 16384, "N": 100000, "WIDTH": 500, "FILL": 0.7, "dtype": "bfloat16"},
    {"M": 1000003, "N": 1009, "WIDTH": 7, "FILL": 0.9, "dtype": "float16"},
    {"M": 2003, "N": 30011, "WIDTH": 3000, "FILL": 0.3},
    {"M": 30011, "N": 30011, "WIDTH": 33, "FILL": 0.2, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def inputs(M=262144, N=262144, WIDTH=27, FILL=1.0, dtype=torch.float32, device="cuda"):
    """Columns and values (WIDTH, M), row lengths, and the vector; padding comes last in a row."""
    share = torch.rand(M, device=device).pow(1 / FILL - 1)  # its mean is FILL
    lengths = (share * WIDTH).ceil_().clamp_(max=WIDTH).to(torch.int32)
    cols = torch.randint(N, (WIDTH, M), dtype=torch.int32, device=device)
    place = torch.arange(WIDTH, dtype=torch.int32, device=device)[:, None]
    cols = torch.where(place < lengths, cols, -1)
    values = torch.randn(WIDTH, M, dtype=dtype, device=device) * WIDTH**-0.5
    return cols, values, lengths, torch.randn(N, dtype=dtype, device=device)


def reference(cols, values, lengths, x):
    products = values.float() * x[cols.clamp(min=0)].float()
    return torch.where(cols >= 0, products, 0.0).sum(0).to(x.dtype)
