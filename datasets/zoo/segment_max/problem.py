"""The greatest of a segment's rows and zero, by column; segments of skewed lengths are in order."""

import torch

KIND = "indexing"
# SKEW: 1 for lengths by chance, 4 for some long segments, 12 where half of them are all but empty.
SHAPES = [
    {"T": 131072, "S": 8192, "D": 256, "SKEW": 1.0},
    {"T": 262144, "S": 20000, "D": 128, "SKEW": 4.0},
    {"T": 200003, "S": 5003, "D": 65, "SKEW": 12.0, "dtype": "float32"},
    {"T": 65536, "S": 512, "D": 1024, "SKEW": 1.0, "dtype": "bfloat16"},
    {"T": 1000003, "S": 300007, "D": 16, "SKEW": 2.0, "dtype": "float32"},
    {"T": 32768, "S": 100, "D": 2048, "SKEW": 6.0},
    {"T": 30011, "S": 777, "D": 301, "SKEW": 3.0, "dtype": "float32"},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(T=131072, S=8192, D=256, SKEW=1.0, dtype=torch.float16, device="cuda"):
    """Rows, the segment of each, and where each segment starts; some segments are empty."""
    cuts = (torch.rand(S - 1, dtype=torch.float64, device=device) ** SKEW * T).sort().values
    offsets = torch.nn.functional.pad(cuts.to(torch.int32), (1, 1))
    offsets[-1] = T
    every = torch.arange(T, dtype=torch.int32, device=device)
    ids = torch.searchsorted(offsets, every, right=True, out_int32=True) - 1
    return torch.randn(T, D, dtype=dtype, device=device), ids, offsets


def reference(rows, ids, offsets):
    S, D = offsets.shape[0] - 1, rows.shape[1]
    out = torch.zeros(S, D, dtype=torch.float32, device=rows.device)
    return out.scatter_reduce_(0, ids.long()[:, None].expand(-1, D), rows.float(), "amax")
