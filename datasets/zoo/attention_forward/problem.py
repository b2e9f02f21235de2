"""Attention, forward: softmax(q k^T / sqrt(D)) v, causal or not.

Heads of queries share heads of keys in groups (GQA).
"""

import torch
import torch.nn.functional as F

KIND = "attention"
SHAPES = [
    {"B": 2, "H": 16, "KV": 16, "S": 2048, "D": 64, "causal": True, "dtype": "bfloat16"},
    {"B": 1, "H": 32, "KV": 8, "S": 2048, "D": 128, "causal": True, "dtype": "bfloat16"},
    {"B": 4, "H": 16, "KV": 16, "S": 1024, "D": 128, "causal": False, "dtype": "float16"},
    {"B": 1, "H": 8, "KV": 2, "S": 4096, "D": 64, "causal": False, "dtype": "float16"},
    {"B": 2, "H": 8, "KV": 8, "S": 1003, "D": 64, "causal": False, "dtype": "bfloat16"},
    {"B": 3, "H": 6, "KV": 3, "S": 331, "D": 128, "causal": True, "dtype": "float16"},
    {"B": 16, "H": 8, "KV": 2, "S": 128, "D": 32, "causal": False, "dtype": "bfloat16"},
    {"B": 1, "H": 4, "KV": 4, "S": 777, "D": 64, "causal": True, "dtype": "float32"},
]
# Weights are rounded to the dtype of v before they meet it.
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def inputs(
    B=2, H=16, KV=16, S=2048, D=64, causal=True, dtype=torch.bfloat16, device="cuda"
):  # fmt: skip
    q = torch.randn(B, H, S, D, dtype=dtype, device=device)
    k, v = (torch.randn(B, KV, S, D, dtype=dtype, device=device) for _ in range(2))
    return q, k, v, causal


def reference(q, k, v, causal):
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)


def item_bytes(shape):
    """Bytes of an element of the inputs."""
    return 4 if shape.get("dtype") == "float32" else 2


def fits(shape, block_m, block_n, warps, stages):
    """Whether such tiles of a fused kernel fit: inputs in shared memory, the rest in registers."""
    shared = (block_m + 2 * max(1, stages) * block_n) * shape["D"] * item_bytes(shape)
    held = block_m * (block_n + shape["D"]) / (32 * warps)
    return shared <= 227 * 1024 and 4 <= held <= 256
