"""A polynomial of high degree at every element of a vector, in fp32 arithmetic."""

import torch

KIND = "elementwise"
SHAPES = [
    {"N": 1 << 24, "DEGREE": 255, "dtype": "float32"},
    {"N": 1 << 25, "DEGREE": 64, "dtype": "float16"},
    {"N": 5000011, "DEGREE": 127, "dtype": "float32"},
    {"N": 1 << 22, "DEGREE": 511, "dtype": "float32"},
    {"N": 1 << 26, "DEGREE": 20, "dtype": "bfloat16"},
    {"N": 1000003, "DEGREE": 300, "dtype": "bfloat16"},
    {"N": 1 << 20, "DEGREE": 31, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}  # values are of order one


def inputs(N=1 << 24, DEGREE=255, dtype=torch.float32, device="cuda"):
    """Places within -1 .. 1, and coefficients in fp32 from that of the constant up."""
    x = (2 * torch.rand(N, device=device) - 1).to(dtype)
    return x, torch.randn(DEGREE + 1, device=device)


def reference(x, coefficients):
    wide = x.float()
    total = coefficients[-1].expand_as(wide)
    for place in range(len(coefficients) - 2, -1, -1):
        total = torch.addcmul(coefficients[place], total, wide)
    return total.to(x.dtype)
