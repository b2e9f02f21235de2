"""Booleans of each row to bits of 32-bit words, the first to the lowest bit; zeros at the end."""

import torch
import torch.nn.functional as F

KIND = "quantisation"
SHAPES = [
    {"M": 8192, "N": 16384, "dtype": "bool"},
    {"M": 1, "N": 300000000, "dtype": "uint8"},
    {"M": 10000, "N": 5001, "dtype": "bool"},
    {"M": 4096, "N": 8192, "dtype": "float16"},
    {"M": 200000, "N": 100, "dtype": "float32"},
    {"M": 3001, "N": 20011, "dtype": "uint8"},  # primes
    {"M": 1000, "N": 65536, "dtype": "float32"},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(M=8192, N=16384, dtype=torch.bool, device="cuda"):
    """Of floats, the sign is taken: negative ones are set. Of the rest, what is not zero."""
    if dtype in (torch.float16, torch.float32):
        return (torch.randn(M, N, dtype=dtype, device=device),)
    return (torch.randint(0, 2, (M, N), dtype=torch.uint8, device=device).to(dtype),)


def reference(x):
    bits = (x < 0) if x.is_floating_point() else (x != 0)
    bits = F.pad(bits.to(torch.int32), (0, -x.shape[1] % 32))
    place = torch.arange(32, device=x.device, dtype=torch.int32)
    return (bits.view(x.shape[0], -1, 32) << place).sum(dim=2, dtype=torch.int32)


def itemsize(shape):
    """Bytes of an input's element."""
    name = str(shape["dtype"]).removeprefix("torch.")
    return {"float16": 2, "float32": 4}.get(name, 1)
