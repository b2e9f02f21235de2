"""Causal softmax of scaled attention scores: a query sees no key beyond its own position."""

import torch

KIND = "softmax"
SHAPES = [
    {"B": 8, "Q": 128, "K": 128, "dtype": "float32"},
    {"B": 32, "Q": 512, "K": 512, "dtype": "bfloat16"},
    {"B": 12, "Q": 1021, "K": 1021, "dtype": "float16"},
    {"B": 3, "Q": 333, "K": 1777, "dtype": "bfloat16"},
    {"B": 8, "Q": 2048, "K": 2048, "dtype": "bfloat16"},
    {"B": 2, "Q": 4096, "K": 4096, "dtype": "float16"},
    {"B": 16, "Q": 128, "K": 4224, "dtype": "float32"},
]
SCALE = 0.125
TOLERANCE = {"rtol": 1e-2, "atol": 1e-6}


def inputs(B=8, Q=2048, K=2048, dtype=torch.bfloat16, device="cuda"):
    return (8.0 * torch.randn(B, Q, K, dtype=dtype, device=device),)


def reference(scores):
    Q, K = scores.shape[1:]
    # The last query stands at the last key.
    hidden = torch.ones(Q, K, dtype=torch.bool, device=scores.device).triu(K - Q + 1)
    return torch.softmax((SCALE * scores.float()).masked_fill(hidden, float("-inf")), dim=-1).to(
        scores.dtype
    )
