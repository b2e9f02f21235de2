"""Causal attention over long sequences; heads of queries share heads of keys in groups."""

import torch
import torch.nn.functional as F

KIND = "attention"
SHAPES = [
    {"B": 1, "H": 16, "KV": 4, "S": 16384, "D": 128, "dtype": "bfloat16"},
    {"B": 1, "H": 32, "KV": 8, "S": 8192, "D": 128, "dtype": "bfloat16"},
    {"B": 2, "H": 12, "KV": 12, "S": 8192, "D": 64, "dtype": "float16"},
    {"B": 1, "H": 7, "KV": 1, "S": 10007, "D": 64, "dtype": "bfloat16"},
    {"B": 1, "H": 8, "KV": 2, "S": 12000, "D": 128, "dtype": "float16"},
    {"B": 1, "H": 2, "KV": 2, "S": 32768, "D": 64, "dtype": "bfloat16"},
    {"B": 1, "H": 4, "KV": 4, "S": 9001, "D": 128, "dtype": "float16"},
]
# Weights are rounded to the dtype of v before they meet it.
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def inputs(B=1, H=16, KV=4, S=16384, D=128, dtype=torch.bfloat16, device="cuda"):
    q = torch.randn(B, H, S, D, dtype=dtype, device=device)
    k, v = (torch.randn(B, KV, S, D, dtype=dtype, device=device) for _ in range(2))
    return q, k, v


def reference(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def fits(shape, block_m, block_n, warps, stages):
    """Whether such tiles of a fused kernel fit: inputs in shared memory, the rest in registers."""
    shared = (block_m + 2 * max(1, stages) * block_n) * shape["D"] * 2
    held = block_m * (block_n + shape["D"]) / (32 * warps)
    return shared <= 220 * 1024 and 16 <= held <= 192
