"""Nucleus sampling's cut: of each row's probabilities, largest first, those that reach P, scaled.

A probability stays if those before it add up to less than P, else it becomes 0; what stays adds
up to 1. SHARP is the inverse temperature: the larger, the fewer stay.
"""

import torch

KIND = "scan"
SHAPES = [
    {"M": 512, "N": 128256, "P": 0.9, "SHARP": 1.0},
    {"M": 64, "N": 128256, "P": 0.95, "SHARP": 4.0},
    {"M": 4096, "N": 32000, "P": 0.9, "SHARP": 2.0},
    {"M": 1000, "N": 50257, "P": 0.5, "SHARP": 0.5},
    {"M": 16384, "N": 2000, "P": 0.99, "SHARP": 1.0},
    {"M": 8, "N": 262144, "P": 0.8, "SHARP": 3.0},
    {"M": 30000, "N": 501, "P": 0.7, "SHARP": 2.0},
]
TOLERANCE = {"rtol": 1e-4, "atol": 1e-6}


def inputs(M=512, N=128256, P=0.9, SHARP=1.0, device="cuda"):
    # Multiples of 2**-22, so that sums are exact and no rounding decides what stays.
    x = torch.softmax(torch.randn(M, N, device=device) * SHARP, dim=1)
    return (x * 2**22).floor_().div_(2**22).sort(dim=1, descending=True).values, P


def reference(x, p):
    before = x.cumsum(1) - x
    kept = torch.where(before < p, x, 0.0)
    return kept / kept.sum(1, keepdim=True)
