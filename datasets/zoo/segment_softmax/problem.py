"""A softmax over the edges of each node, by head: a graph's attention. Edges are sorted by node."""

import torch

KIND = "softmax"
# SKEW: 1 for degrees by chance, 3 for hubs, 10 where half of the nodes have next to no edges.
SHAPES = [
    {"E": 2000000, "S": 100000, "H": 8, "SKEW": 1.0},
    {"E": 4000000, "S": 50000, "H": 4, "SKEW": 3.0, "dtype": "float16"},
    {"E": 1000003, "S": 20011, "H": 3, "SKEW": 10.0},
    {"E": 1 << 22, "S": 4096, "H": 1, "SKEW": 1.0, "dtype": "bfloat16"},
    {"E": 500009, "S": 200003, "H": 16, "SKEW": 2.0},
    {"E": 3000017, "S": 1009, "H": 2, "SKEW": 4.0},
    {"E": 100003, "S": 777, "H": 12, "SKEW": 1.0, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-4}


def inputs(E=2000000, S=100000, H=8, SKEW=1.0, dtype=torch.float32, device="cuda"):
    """Scores, the node of each edge, and where each node's edges start; some have none."""
    cuts = (torch.rand(S - 1, dtype=torch.float64, device=device) ** SKEW * E).sort().values
    offsets = torch.nn.functional.pad(cuts.to(torch.int32), (1, 1))
    offsets[-1] = E
    every = torch.arange(E, dtype=torch.int32, device=device)
    nodes = torch.searchsorted(offsets, every, right=True, out_int32=True) - 1
    return torch.randn(E, H, dtype=dtype, device=device), nodes, offsets


def reference(scores, nodes, offsets):
    x = scores.float()
    shape = (offsets.shape[0] - 1, scores.shape[1])
    wide = nodes.long()[:, None].expand(-1, shape[1])
    least = torch.full(shape, -3e38, dtype=torch.float32, device=scores.device)
    greatest = least.scatter_reduce(0, wide, x, "amax")
    e = torch.exp(x - greatest.gather(0, wide))
    total = torch.zeros_like(least).scatter_add(0, wide, e)
    return (e / total.gather(0, wide)).to(scores.dtype)
