"""A causal filter of K taps over long signals: what lies before a signal is zero."""

import torch
import torch.nn.functional as F

KIND = "convolution"
SHAPES = [
    {"B": 64, "T": 262144, "K": 32, "dtype": "float32"},
    {"B": 2, "T": 8000000, "K": 16, "dtype": "float16"},
    {"B": 1000, "T": 16000, "K": 128, "dtype": "float32"},
    {"B": 16, "T": 1000003, "K": 64, "dtype": "bfloat16"},
    {"B": 4, "T": 1048576, "K": 255, "dtype": "float32"},
    {"B": 4096, "T": 4001, "K": 9, "dtype": "float16"},
    {"B": 37, "T": 99991, "K": 101, "dtype": "float32"},  # primes
]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def inputs(B=64, T=262144, K=32, dtype=torch.float32, device="cuda"):
    taps = torch.randn(K, device=device) * K**-0.5
    return torch.randn(B, T, dtype=dtype, device=device), taps


def reference(x, taps):
    before = F.pad(x.float()[:, None], (taps.shape[0] - 1, 0))
    return F.conv1d(before, taps.flip(0)[None, None])[:, 0].to(x.dtype)
