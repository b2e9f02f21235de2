"""How many sorted edges lie below each number: the bucket that it falls into."""

import torch

KIND = "indexing"
# SKEW: 1 for edges spread evenly, more for edges that crowd near zero, where few numbers are.
SHAPES = [
    {"N": 1 << 23, "EDGES": 255, "SKEW": 1},
    {"N": 1 << 22, "EDGES": 10000, "SKEW": 3},
    {"N": 3000017, "EDGES": 1000003, "SKEW": 1},
    {"N": 1 << 23, "EDGES": 15, "SKEW": 2, "dtype": "bfloat16"},
    {"N": 1000003, "EDGES": 5003, "SKEW": 8, "dtype": "float16"},
    {"N": 1 << 22, "EDGES": 65536, "SKEW": 1, "dtype": "float16"},
    {"N": 2000003, "EDGES": 1000, "SKEW": 5},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(N=1 << 23, EDGES=255, SKEW=1, dtype=torch.float32, device="cuda"):
    edges = torch.rand(EDGES, device=device).pow(SKEW).sort().values
    return torch.rand(N, device=device).to(dtype), edges


def reference(x, edges):
    return torch.bucketize(x.float(), edges, out_int32=True)
