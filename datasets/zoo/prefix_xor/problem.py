"""The running exclusive or of each row's 32-bit words: Gray codes' way back, word by word."""

import torch

KIND = "scan"
SHAPES = [
    {"M": 16384, "N": 4096},
    {"M": 1000, "N": 100000},
    {"M": 200000, "N": 500},
    {"M": 8, "N": 4194304},
    {"M": 5003, "N": 10007},  # primes
    {"M": 1000000, "N": 64},
    {"M": 100, "N": 1000003},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(M=16384, N=4096, device="cuda"):
    return (torch.randint(-(2**31), 2**31, (M, N), dtype=torch.int32, device=device),)


def reference(x):
    """Doubling: after each step a word holds twice as many."""
    out, reach = x, 1
    while reach < x.shape[1]:
        out = torch.cat((out[:, :reach], out[:, reach:] ^ out[:, :-reach]), dim=1)
        reach *= 2
    return out
