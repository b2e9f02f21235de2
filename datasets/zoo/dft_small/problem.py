"""Discrete Fourier transforms of short rows of complex numbers, as products with tables."""

import math

import torch

KIND = "matmul"
SHAPES = [
    {"M": 200000, "L": 64, "dtype": "float32"},
    {"M": 300000, "L": 128, "dtype": "float16"},
    {"M": 100003, "L": 32, "dtype": "float32"},
    {"M": 50000, "L": 256, "dtype": "bfloat16"},
    {"M": 131072, "L": 128, "dtype": "float32"},
    {"M": 777777, "L": 16, "dtype": "float16"},
    {"M": 65537, "L": 256, "dtype": "float16"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 3e-2}  # results are of order one; tf32 keeps ten bits


def inputs(M=200000, L=64, dtype=torch.float32, device="cuda"):
    """Real and imaginary parts, and the tables of cosines and sines, both scaled by L**-0.5."""
    real, imaginary = (torch.randn(M, L, dtype=dtype, device=device) for _ in range(2))
    count = torch.arange(L, device=device)
    angle = (count[:, None] * count[None, :] % L).float() * (2 * math.pi / L)
    scale = L**-0.5
    return real, imaginary, (angle.cos() * scale).to(dtype), (angle.sin() * scale).to(dtype)


def reference(real, imaginary, cosines, sines):
    re = real.float() @ cosines.float() + imaginary.float() @ sines.float()
    im = imaginary.float() @ cosines.float() - real.float() @ sines.float()
    return re.to(real.dtype), im.to(real.dtype)


def itemsize(shape):
    """Bytes of an input's element."""
    return 4 if "float32" in str(shape["dtype"]) else 2
