"""Running sums of one long vector, in float32.

Values are multiples of 1/8, so that sums are exact in any order.
"""

import torch

KIND = "scan"
SHAPES = [
    {"N": 1 << 26, "dtype": "float32"},
    {"N": 1 << 24, "dtype": "float32"},
    {"N": 10000019, "dtype": "float32"},
    {"N": 1 << 25, "dtype": "float16"},
    {"N": 1 << 21, "dtype": "float32"},
    {"N": 50000017, "dtype": "bfloat16"},
    {"N": 1 << 27, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-3, "atol": 5e-2}


def inputs(N=1 << 26, dtype=torch.float32, device="cuda"):
    eighths = torch.randint(-8, 9, (N,), dtype=torch.int8, device=device)
    return (eighths.to(dtype) / 8,)


def reference(x):
    return torch.cumsum(x, 0, dtype=torch.float32)
