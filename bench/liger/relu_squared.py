"""Liger-Kernel's squared ReLU (forward), launched by its own launcher.

A parameter of 0 leaves Liger's own choice, which is the default.
"""

from unittest.mock import patch

import torch
from liger_kernel.ops import relu_squared as op

SPACE = {"num_warps": [0, 1, 2, 4, 8, 16, 32]}
SHAPES = [
    {"M": 8192, "N": 5632},
    {"M": 4096, "N": 11008},
    {"M": 4096, "N": 14336},
    {"M": 64, "N": 14336},
]
HELD_OUT_SHAPES = [{"M": 3000, "N": 8960}]


class Launched:
    """A Triton kernel with some launch options replaced."""

    def __init__(self, kernel, **options):
        self.kernel = kernel
        self.options = {name: value for name, value in options.items() if value}

    def __getitem__(self, grid):
        return lambda *args, **given: self.kernel[grid](*args, **{**given, **self.options})


def reference(x):
    return torch.relu(x).square()


def inputs(M=4096, N=14336, dtype=torch.bfloat16, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device),)


def kernel(x, *, num_warps=0):
    launched = Launched(op._relu_squared_forward_kernel, num_warps=num_warps)
    with patch.object(op, "_relu_squared_forward_kernel", launched):
        return op.relu_squared_forward(x)
