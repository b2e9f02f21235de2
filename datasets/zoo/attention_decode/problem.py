"""Attention of one new token a sequence over its keys and values, heads of queries in groups."""

import torch
import torch.nn.functional as F

KIND = "attention"
SHAPES = [
    {"B": 8, "H": 32, "KV": 8, "S": 4096, "D": 128, "dtype": "bfloat16"},
    {"B": 1, "H": 32, "KV": 8, "S": 16384, "D": 128, "dtype": "bfloat16"},
    {"B": 16, "H": 16, "KV": 16, "S": 1024, "D": 64, "dtype": "float16"},
    {"B": 2, "H": 64, "KV": 8, "S": 8192, "D": 64, "dtype": "bfloat16"},
    {"B": 3, "H": 12, "KV": 4, "S": 1777, "D": 128, "dtype": "float16"},
    {"B": 1, "H": 8, "KV": 1, "S": 333, "D": 64, "dtype": "bfloat16"},
    {"B": 32, "H": 16, "KV": 2, "S": 512, "D": 64, "dtype": "float16"},
    {"B": 4, "H": 8, "KV": 2, "S": 2049, "D": 128, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 2e-3}


def inputs(B=8, H=32, KV=8, S=4096, D=128, dtype=torch.bfloat16, device="cuda"):
    q = torch.randn(B, H, D, dtype=dtype, device=device)
    k, v = (torch.randn(B, KV, S, D, dtype=dtype, device=device) for _ in range(2))
    return q, k, v


def reference(q, k, v):
    return F.scaled_dot_product_attention(q[:, :, None], k, v, enable_gqa=True)[:, :, 0]


def item_bytes(shape):
    """Bytes of an element of the inputs."""
    return 4 if shape.get("dtype") == "float32" else 2
