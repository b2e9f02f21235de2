"""A step of the game of life: born with three neighbours, kept with two or three; dead outside."""

import torch
import torch.nn.functional as F

KIND = "convolution"
SHAPES = [
    {"M": 16384, "N": 16384, "dtype": "uint8"},
    {"M": 8192, "N": 8192, "dtype": "int32"},
    {"M": 12000, "N": 9001, "dtype": "uint8"},
    {"M": 30011, "N": 2000, "dtype": "uint8"},
    {"M": 5003, "N": 7001, "dtype": "float32"},  # primes
    {"M": 2048, "N": 65536, "dtype": "uint8"},
    {"M": 10000, "N": 10000, "dtype": "int16"},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(M=16384, N=16384, dtype=torch.uint8, device="cuda"):
    return ((torch.rand(M, N, device=device) < 0.35).to(dtype),)


def reference(x):
    p = F.pad(x != 0, (1, 1, 1, 1)).to(torch.uint8)
    rows = p[:, :-2] + p[:, 1:-1] + p[:, 2:]
    around = rows[:-2] + rows[1:-1] + rows[2:] - p[1:-1, 1:-1]
    return ((around == 3) | ((around == 2) & (x != 0))).to(x.dtype)


def itemsize(shape):
    """Bytes of a cell."""
    name = str(shape["dtype"]).removeprefix("torch.")
    return {"uint8": 1, "int16": 2}.get(name, 4)
