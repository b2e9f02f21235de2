"""A matrix transposed into a contiguous one."""

import torch

KIND = "layout"
SHAPES = [
    {"M": 4096, "N": 4096, "dtype": "float16"},
    {"M": 4096, "N": 4096, "dtype": "float32"},
    {"M": 1000, "N": 30000, "dtype": "float16"},
    {"M": 257, "N": 1031, "dtype": "float32"},
    {"M": 65536, "N": 64, "dtype": "bfloat16"},
    {"M": 32, "N": 100003, "dtype": "float32"},
    {"M": 8192, "N": 6144, "dtype": "int8"},
    {"M": 512, "N": 512, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(M=4096, N=4096, dtype=torch.float16, device="cuda"):
    if dtype == torch.int8:
        return (torch.randint(-128, 128, (M, N), dtype=dtype, device=device),)
    return (torch.randn(M, N, dtype=dtype, device=device),)


def reference(x):
    return x.t().contiguous()
