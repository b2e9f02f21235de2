"""Rows of a table gathered by token."""

import torch
import torch.nn.functional as F

KIND = "indexing"
SHAPES = [
    {"T": 32768, "V": 32000, "D": 1024},
    {"T": 65536, "V": 100000, "D": 96},
    {"T": 512, "V": 50257, "D": 768, "dtype": "float32"},
    {"T": 8192, "V": 16384, "D": 4096, "dtype": "bfloat16"},
    {"T": 10007, "V": 997, "D": 301, "dtype": "float32"},
    {"T": 262144, "V": 4096, "D": 64, "dtype": "bfloat16"},
    {"T": 4096, "V": 8192, "D": 5120},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def reference(table, tokens):
    return F.embedding(tokens, table)


def inputs(T=32768, V=32000, D=1024, dtype=torch.float16, device="cuda"):
    table = torch.randn(V, D, dtype=dtype, device=device)
    return table, torch.randint(0, V, (T,), device=device)
