"""Rows times a factor, added to those of a table; the index comes in bursts of equal targets."""

import torch

KIND = "indexing"
# SKEW crowds the first rows of the table; BURST rows in a row have the same target.
SHAPES = [
    {"T": 131072, "S": 32768, "D": 128, "SKEW": 1.0, "BURST": 1},
    {"T": 65536, "S": 4096, "D": 256, "SKEW": 3.0, "BURST": 4},
    {"T": 200003, "S": 10007, "D": 63, "SKEW": 10.0, "BURST": 2, "dtype": "float32"},
    {"T": 16384, "S": 1000, "D": 1024, "SKEW": 2.0, "BURST": 16, "dtype": "bfloat16"},
    {"T": 500000, "S": 50000, "D": 32, "SKEW": 4.0, "BURST": 8, "dtype": "float32"},
    {"T": 30011, "S": 500, "D": 516, "SKEW": 6.0, "BURST": 1},
    {"T": 8009, "S": 20011, "D": 2000, "SKEW": 1.0, "BURST": 1, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 1e-3, "atol": 5e-2}  # thousands of rows may meet, in any order


def inputs(T=131072, S=32768, D=128, SKEW=1.0, BURST=1, dtype=torch.float16, device="cuda"):
    bursts = torch.rand(-(-T // BURST), device=device).pow(SKEW) * S
    index = bursts.clamp_(max=S - 1).to(torch.int32)[:, None].expand(-1, BURST).reshape(-1)[:T]
    table = torch.randn(S, D, device=device)
    return table, torch.randn(T, D, dtype=dtype, device=device), index.contiguous(), 0.5


def reference(table, rows, index, factor):
    return table.index_add(0, index, rows.float(), alpha=factor)
