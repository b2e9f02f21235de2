"""Weighted sums of a table's rows over ragged bags of indices, as recommendation models have."""

import torch

KIND = "indexing"
# SKEW makes some rows of the table popular, RAGGED some bags long; 1 leaves both to chance.
SHAPES = [
    {"BAGS": 16384, "PER_BAG": 32, "V": 500000, "D": 64, "SKEW": 1, "RAGGED": 1},
    {"BAGS": 8192, "PER_BAG": 80, "V": 100000, "D": 128, "SKEW": 4, "RAGGED": 2},
    {"BAGS": 2003, "PER_BAG": 99, "V": 50021, "D": 100, "SKEW": 9, "RAGGED": 6, "dtype": "float32"},
    {"BAGS": 65536, "PER_BAG": 5, "V": 999999, "D": 32, "SKEW": 2, "RAGGED": 1, "dtype": "float32"},
    {"BAGS": 512, "PER_BAG": 700, "V": 9999, "D": 256, "SKEW": 1, "RAGGED": 3, "dtype": "bfloat16"},
    {"BAGS": 30011, "PER_BAG": 20, "V": 3001, "D": 17, "SKEW": 3, "RAGGED": 2},
    {"BAGS": 1000, "PER_BAG": 50, "V": 8000, "D": 1024, "SKEW": 6, "RAGGED": 1},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def inputs(
    BAGS=16384, PER_BAG=32, V=500000, D=64, SKEW=1, RAGGED=1, dtype=torch.float16,
    device="cuda",
):  # fmt: skip
    """The table, indices, their weights, and where each bag starts; some bags may be empty."""
    count = BAGS * PER_BAG
    cuts = torch.rand(BAGS - 1, dtype=torch.float64, device=device) ** RAGGED * count
    offsets = torch.nn.functional.pad(cuts.sort().values.to(torch.int32), (1, 1))
    offsets[-1] = count
    index = (torch.rand(count, device=device).pow(SKEW) * V).clamp_(max=V - 1).to(torch.int32)
    weights = torch.rand(count, device=device) * PER_BAG**-0.5
    return torch.randn(V, D, dtype=dtype, device=device), index, weights, offsets


def reference(table, index, weights, offsets):
    every = torch.arange(index.shape[0], dtype=torch.int32, device=index.device)
    bag = torch.searchsorted(offsets, every, right=True) - 1
    shape = (offsets.shape[0] - 1, table.shape[1])
    out = torch.zeros(shape, dtype=torch.float32, device=table.device)
    return out.index_add_(0, bag, table[index].float() * weights[:, None]).to(table.dtype)
