"""Gradient of an embedding table: gradient rows of equal tokens add up; popular tokens repeat."""

import torch

KIND = "indexing"
# SKEW: 1 for tokens by chance, 3 as in text, 12 for one that is half of all (padding).
SHAPES = [
    {"T": 32768, "V": 50257, "D": 512, "SKEW": 3.0, "dtype": "bfloat16"},
    {"T": 16384, "V": 32000, "D": 1024, "SKEW": 1.0},
    {"T": 100003, "V": 10007, "D": 65, "SKEW": 12.0, "dtype": "float32"},
    {"T": 262144, "V": 1000, "D": 64, "SKEW": 4.0},
    {"T": 8192, "V": 100000, "D": 768, "SKEW": 2.0, "dtype": "float32"},
    {"T": 65536, "V": 256, "D": 256, "SKEW": 1.0, "dtype": "bfloat16"},
    {"T": 5003, "V": 997, "D": 2050, "SKEW": 6.0},
]
TOLERANCE = {"rtol": 2e-3, "atol": 1e-1}  # many thousands of rows may meet, in any order


def inputs(T=32768, V=50257, D=512, SKEW=3.0, dtype=torch.float16, device="cuda"):
    """Gradient rows and tokens; positions sorted by token, and where a token's start."""
    tokens = (torch.rand(T, device=device).pow(SKEW) * V).clamp_(max=V - 1).to(torch.int32)
    in_order, order = tokens.sort(stable=True)
    every = torch.arange(V + 1, dtype=torch.int32, device=device)
    starts = torch.searchsorted(in_order, every, out_int32=True)
    grads = torch.randn(T, D, dtype=dtype, device=device)
    return grads, tokens, order.to(torch.int32), starts


def reference(grads, tokens, order, starts):
    shape = (starts.shape[0] - 1, grads.shape[1])
    out = torch.zeros(shape, dtype=torch.float32, device=grads.device)
    return out.index_add_(0, tokens, grads.float())
