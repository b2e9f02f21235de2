"""The greatest of zero and the rows that an index sends to each target, by column, in any order."""

import torch

KIND = "indexing"
# SKEW: 1 sends rows evenly, 3 crowds the first targets, 10 sends most to a handful.
SHAPES = [
    {"T": 131072, "S": 8192, "D": 128, "SKEW": 1.0, "dtype": "float32"},
    {"T": 262144, "S": 1000, "D": 64, "SKEW": 3.0},
    {"T": 100003, "S": 5003, "D": 129, "SKEW": 10.0},
    {"T": 1 << 20, "S": 100003, "D": 16, "SKEW": 2.0, "dtype": "float32"},
    {"T": 32768, "S": 200, "D": 768, "SKEW": 5.0, "dtype": "bfloat16"},
    {"T": 400009, "S": 48, "D": 32, "SKEW": 1.0, "dtype": "float32"},
    {"T": 50021, "S": 20011, "D": 333, "SKEW": 1.0, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(T=131072, S=8192, D=128, SKEW=1.0, dtype=torch.float16, device="cuda"):
    index = (torch.rand(T, device=device).pow(SKEW) * S).clamp_(max=S - 1).to(torch.int32)
    return torch.randn(T, D, dtype=dtype, device=device), index, S


def reference(rows, index, targets):
    shape = (targets, rows.shape[1])
    out = torch.zeros(shape, dtype=torch.float32, device=rows.device)
    return out.scatter_reduce_(0, index.long()[:, None].expand(-1, shape[1]), rows.float(), "amax")
