"""The discrete Fourier transform of rows of N complex numbers, a power of two; pairs lie last."""

import torch

KIND = "scan"
SHAPES = [
    {"M": 32768, "N": 512},
    {"M": 100003, "N": 128},
    {"M": 8192, "N": 2048},
    {"M": 20011, "N": 1024},
    {"M": 300000, "N": 64},
    {"M": 65536, "N": 256, "dtype": "float16"},
    {"M": 30011, "N": 1024, "dtype": "float16"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def inputs(M=32768, N=512, dtype=torch.float32, device="cuda"):
    """Of order N**-0.5, so that results are of order one."""
    return (torch.randn(M, N, 2, device=device).mul_(N**-0.5).to(dtype),)


def reference(x):
    out = torch.fft.fft(torch.view_as_complex(x.float()))
    return torch.view_as_real(out).to(x.dtype)
