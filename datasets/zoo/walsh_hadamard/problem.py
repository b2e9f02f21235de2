"""The fast Walsh-Hadamard transform of rows whose length is a power of two, orthonormal."""

import math

import torch

KIND = "scan"
SHAPES = [
    {"M": 16384, "N": 1024, "dtype": "float32"},
    {"M": 65536, "N": 512, "dtype": "float16"},
    {"M": 200003, "N": 128, "dtype": "bfloat16"},
    {"M": 4096, "N": 4096, "dtype": "float32"},
    {"M": 3001, "N": 8192, "dtype": "float16"},
    {"M": 500000, "N": 64, "dtype": "float32"},
    {"M": 12289, "N": 2048, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def inputs(M=16384, N=1024, dtype=torch.float32, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device),)


def reference(x):
    M, N = x.shape
    now = x.float()
    for level in range(int(math.log2(N))):
        pairs = now.view(M, -1, 2, 1 << level)
        low, high = pairs[:, :, 0], pairs[:, :, 1]
        now = torch.stack((low + high, low - high), dim=2).view(M, N)
    return (now * N**-0.5).to(x.dtype)
