"""One pass of a radix sort: keys in the order of BITS of their bits above SHIFT, else as they were.

With SKEW > 1 small digits are frequent.
"""

import torch

KIND = "scan"
SHAPES = [
    {"N": 1 << 24, "BITS": 4, "SHIFT": 0, "SKEW": 1.0},
    {"N": 1 << 24, "BITS": 8, "SHIFT": 8, "SKEW": 1.0},
    {"N": 10000019, "BITS": 5, "SHIFT": 12, "SKEW": 4.0},
    {"N": 1 << 22, "BITS": 8, "SHIFT": 16, "SKEW": 8.0},
    {"N": 3000017, "BITS": 3, "SHIFT": 3, "SKEW": 2.0},
    {"N": 1 << 25, "BITS": 6, "SHIFT": 20, "SKEW": 1.0},
    {"N": 500009, "BITS": 4, "SHIFT": 24, "SKEW": 6.0},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(N=1 << 24, BITS=4, SHIFT=0, SKEW=1.0, device="cuda"):
    keys = torch.randint(0, 1 << 30, (N,), dtype=torch.int32, device=device)
    digit = (torch.rand(N, device=device) ** SKEW * (1 << BITS)).int().clamp_(max=(1 << BITS) - 1)
    keys = keys & ~(((1 << BITS) - 1) << SHIFT) | digit << SHIFT
    return keys, BITS, SHIFT


def reference(keys, bits, shift):
    digit = (keys >> shift) & ((1 << bits) - 1)
    order = torch.sort(digit.to(torch.uint8), stable=True).indices
    return keys[order]
