"""The mean of each row of a ragged array: rows of different lengths, one after the other."""

import torch

KIND = "reduction"
# SKEW: 0 for rows of one length, 1 for chance, 4 for some long rows, 15 where half are empty.
SHAPES = [
    {"ROWS": 100000, "PER_ROW": 200, "SKEW": 1.0},
    {"ROWS": 16384, "PER_ROW": 4000, "SKEW": 0.0, "dtype": "bfloat16"},
    {"ROWS": 50021, "PER_ROW": 300, "SKEW": 4.0, "dtype": "float16"},
    {"ROWS": 1000, "PER_ROW": 30011, "SKEW": 2.0},
    {"ROWS": 2000003, "PER_ROW": 9, "SKEW": 1.0, "dtype": "float16"},
    {"ROWS": 10007, "PER_ROW": 1000, "SKEW": 15.0},
    {"ROWS": 77, "PER_ROW": 100003, "SKEW": 1.0, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def inputs(ROWS=100000, PER_ROW=200, SKEW=1.0, dtype=torch.float32, device="cuda"):
    """The numbers and where each row starts; some rows are empty, and have the mean zero."""
    count = ROWS * PER_ROW
    if SKEW:
        cuts = torch.rand(ROWS - 1, dtype=torch.float64, device=device) ** SKEW * count
    else:
        cuts = torch.arange(1, ROWS, dtype=torch.float64, device=device) * PER_ROW
    offsets = torch.nn.functional.pad(cuts.sort().values.to(torch.int32), (1, 1))
    offsets[-1] = count
    return torch.randn(count, dtype=dtype, device=device) + 1, offsets


def reference(values, offsets):
    every = torch.arange(values.shape[0], dtype=torch.int32, device=values.device)
    row = torch.searchsorted(offsets, every, right=True) - 1
    total = torch.zeros(offsets.shape[0] - 1, dtype=torch.float32, device=values.device)
    total.index_add_(0, row, values.float())
    return total / offsets.diff().clamp(min=1)
