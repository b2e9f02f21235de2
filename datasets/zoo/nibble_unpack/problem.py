"""Signed 4-bit integers, two a byte (the low half first), times a scale for each group of a row."""

import torch

KIND = "quantisation"
SHAPES = [
    {"M": 8192, "N": 8192, "GROUP": 128, "dtype": "bfloat16"},
    {"M": 4096, "N": 14336, "GROUP": 64, "dtype": "float16"},
    {"M": 1, "N": 134217728, "GROUP": 32, "dtype": "bfloat16"},
    {"M": 50000, "N": 1120, "GROUP": 224, "dtype": "float16"},
    {"M": 5003, "N": 6016, "GROUP": 32, "dtype": "float32"},
    {"M": 20000, "N": 4096, "GROUP": 256, "dtype": "bfloat16"},
    {"M": 1009, "N": 28672, "GROUP": 64, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-3}


def inputs(M=8192, N=8192, GROUP=128, dtype=torch.bfloat16, device="cuda"):
    """M rows of N values; scales (M, N / GROUP) have the type of the results."""
    packed = torch.randint(0, 256, (M, N // 2), dtype=torch.uint8, device=device)
    return packed, torch.rand(M, N // GROUP, device=device).to(dtype), GROUP


def reference(packed, scales, group):
    low, high = (packed & 15).to(torch.int8), (packed >> 4).to(torch.int8)
    values = torch.stack(((low ^ 8) - 8, (high ^ 8) - 8), dim=2).view(scales.shape[0], -1, group)
    return (values * scales[:, :, None].float()).flatten(1).to(scales.dtype)


def itemsize(shape):
    """Bytes of a result."""
    return 4 if "float32" in str(shape["dtype"]) else 2
