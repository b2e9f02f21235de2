"""How many bits differ between each of M packed codes and each of N others."""

import torch

KIND = "reduction"
SHAPES = [
    {"M": 4096, "N": 8192, "WORDS": 8},
    {"M": 1024, "N": 100000, "WORDS": 4},
    {"M": 10007, "N": 5016, "WORDS": 16},
    {"M": 64, "N": 1000000, "WORDS": 2},
    {"M": 2000, "N": 3000, "WORDS": 128},
    {"M": 16384, "N": 4096, "WORDS": 32},
    {"M": 19, "N": 300008, "WORDS": 24},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(M=4096, N=8192, WORDS=8, device="cuda"):
    """Codes of WORDS 32-bit words."""
    a = torch.randint(-(2**31), 2**31, (M, WORDS), dtype=torch.int32, device=device)
    return a, torch.randint(-(2**31), 2**31, (N, WORDS), dtype=torch.int32, device=device)


def signs(x):
    """1 for a bit that is set and -1 for others."""
    place = torch.arange(32, device=x.device, dtype=torch.int32)
    bits = ((x[:, :, None] >> place) & 1).to(torch.int8)
    return (2 * bits - 1).flatten(1)


def reference(a, b):
    """Of K bits, half of what the product of signs lacks; cuBLAS wants M > 16 and N in eights."""
    return (32 * a.shape[1] - torch._int_mm(signs(a), signs(b).t())) >> 1
