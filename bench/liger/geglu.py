"""Liger-Kernel's GEGLU (forward, tanh), launched by its own launcher.

A parameter of 0 leaves Liger's own choice, which is the default.
"""

from unittest.mock import patch

import torch
from liger_kernel.ops import geglu as op

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


def reference(a, b):
    return torch.nn.functional.gelu(a.float(), approximate="tanh").to(a.dtype) * b


def inputs(M=4096, N=14336, dtype=torch.bfloat16, device="cuda"):
    return tuple(torch.randn(M, N, dtype=dtype, device=device) for _ in range(2))


def kernel(a, b, *, num_warps=0):
    launched = Launched(op._geglu_tanh_forward_kernel, num_warps=num_warps)
    with patch.object(op, "_geglu_tanh_forward_kernel", launched):
        return op.geglu_forward(a, b)[2]
