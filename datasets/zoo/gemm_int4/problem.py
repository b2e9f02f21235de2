"""Product of x with 4-bit weights, two a byte, with a scale for each GROUP of K and column."""

import torch

KIND = "matmul"
SHAPES = [
    {"M": 1024, "N": 4096, "K": 4096, "GROUP": 128, "dtype": "float16"},
    {"M": 16, "N": 8192, "K": 8192, "GROUP": 128, "dtype": "bfloat16"},
    {"M": 64, "N": 4096, "K": 11008, "GROUP": 64, "dtype": "float16"},
    {"M": 1, "N": 14336, "K": 4096, "GROUP": 128, "dtype": "bfloat16"},
    {"M": 256, "N": 512, "K": 1024, "GROUP": 32, "dtype": "float16"},
    {"M": 100, "N": 1000, "K": 1920, "GROUP": 64, "dtype": "bfloat16"},
    {"M": 33, "N": 251, "K": 608, "GROUP": 32, "dtype": "float16"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 3e-2}  # outputs of order one, weights rounded to 16 bits


def reference(x, packed, scales, group):
    low, high = packed & 15, packed >> 4  # rows 2 i and 2 i + 1
    w = torch.stack((low, high), dim=1).flatten(0, 1).to(x.dtype) - 8
    return x @ (w * scales.repeat_interleave(group, dim=0))


def inputs(M=64, N=4096, K=4096, GROUP=128, dtype=torch.float16, device="cuda"):
    x = torch.randn(M, K, dtype=dtype, device=device)
    packed = torch.randint(0, 256, (K // 2, N), dtype=torch.uint8, device=device)
    scales = (0.5 + torch.rand(K // GROUP, N, device=device)) * (0.2 * K**-0.5)
    return x, packed, scales.to(dtype), GROUP
