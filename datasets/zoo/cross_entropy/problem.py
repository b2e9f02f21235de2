"""Cross-entropy of each row of logits against one target class, unreduced, in fp32."""

import torch
import torch.nn.functional as F

KIND = "softmax"
SHAPES = [
    {"T": 4096, "V": 257, "dtype": "float16"},
    {"T": 8192, "V": 1000, "dtype": "float32"},
    {"T": 4096, "V": 10007, "dtype": "bfloat16"},
    {"T": 2048, "V": 32000, "dtype": "bfloat16"},
    {"T": 1021, "V": 50257, "dtype": "float16"},
    {"T": 768, "V": 128256, "dtype": "bfloat16"},
    {"T": 48, "V": 151936, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}


def inputs(T=2048, V=32000, dtype=torch.bfloat16, device="cuda"):
    return torch.randn(T, V, dtype=dtype, device=device), torch.randint(0, V, (T,), device=device)


def reference(logits, targets):
    return F.cross_entropy(logits.float(), targets, reduction="none")
