"""Causal depthwise convolution along time, then SiLU, as in Mamba: each channel has four taps."""

import torch
import torch.nn.functional as F

KIND = "convolution"
TAPS = 4
SHAPES = [
    {"B": 8, "T": 4096, "C": 1024, "dtype": "bfloat16"},
    {"B": 1, "T": 2048, "C": 5120, "dtype": "bfloat16"},
    {"B": 4, "T": 1023, "C": 768, "dtype": "float16"},
    {"B": 2, "T": 8192, "C": 1536, "dtype": "float32"},
    {"B": 3, "T": 997, "C": 331, "dtype": "float32"},
    {"B": 64, "T": 128, "C": 2048, "dtype": "float16"},
    {"B": 1, "T": 100, "C": 80, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def inputs(B=8, T=4096, C=1024, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(B, T, C, dtype=dtype, device=device)
    return x, torch.randn(C, TAPS, dtype=dtype, device=device)


def reference(x, weight):
    T = x.shape[1]
    padded = F.pad(x.float(), (0, 0, TAPS - 1, 0))
    out = sum(padded[:, tap : tap + T] * weight[:, tap].float() for tap in range(TAPS))
    return F.silu(out).to(x.dtype)
