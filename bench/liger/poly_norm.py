"""Liger-Kernel's polynomial norm (forward), launched by its own launcher.

A parameter of 0 leaves Liger's own choice, which is the default.
"""

from unittest.mock import patch

import torch
from liger_kernel.ops import poly_norm as op

SPACE = {"num_warps": [0, 1, 2, 4, 8, 16, 32]}
SHAPES = [
    {"M": 16384, "N": 2048},
    {"M": 8192, "N": 4096},
    {"M": 4096, "N": 8192},
    {"M": 64, "N": 4096},
]
HELD_OUT_SHAPES = [{"M": 6000, "N": 3072}]
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


class Launched:
    """A Triton kernel with some launch options replaced."""

    def __init__(self, kernel, **options):
        self.kernel = kernel
        self.options = {name: value for name, value in options.items() if value}

    def __getitem__(self, grid):
        return lambda *args, **given: self.kernel[grid](*args, **{**given, **self.options})


def reference(x, w, b):
    powers = [x**3, x**2, x]
    normed = [p * torch.rsqrt(p.square().mean(-1, keepdim=True) + 1e-6) for p in powers]
    return w[0] * normed[0] + w[1] * normed[1] + w[2] * normed[2] + b


def inputs(M=8192, N=4096, device="cuda"):
    x = torch.randn(M, N, device=device)
    return x, torch.randn(3, device=device), torch.randn(1, device=device)


def kernel(x, w, b, *, num_warps=0):
    launched = Launched(op._poly_norm_forward_kernel, num_warps=num_warps)
    with patch.object(op, "_poly_norm_forward_kernel", launched):
        return op.poly_norm_forward(x, w, b, 1e-6)[0]
