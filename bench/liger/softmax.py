"""Liger-Kernel's softmax (forward), launched by its own launcher.

A parameter of 0 leaves Liger's own choice, which is the default.
"""

from unittest.mock import patch

import torch
from liger_kernel.ops import softmax as op

SPACE = {"num_warps": [0, 1, 2, 4, 8, 16, 32]}  # Liger's kernel of several blocks does not compile
SHAPES = [
    {"M": 16384, "N": 2048},
    {"M": 8192, "N": 4096},
    {"M": 4096, "N": 8192},
    {"M": 64, "N": 4096},
]
HELD_OUT_SHAPES = [{"M": 6000, "N": 3072}]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-6}


class Launched:
    """A Triton kernel with some launch options replaced."""

    def __init__(self, kernel, **options):
        self.kernel = kernel
        self.options = {name: value for name, value in options.items() if value}

    def __getitem__(self, grid):
        return lambda *args, **given: self.kernel[grid](*args, **{**given, **self.options})


def reference(x):
    return torch.softmax(x, dim=-1)


def inputs(M=8192, N=4096, dtype=torch.bfloat16, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device),)


def kernel(x, *, num_warps=0):
    launched = Launched(op._softmax_single_block_forward_kernel, num_warps=num_warps)
    with patch.object(op, "_softmax_single_block_forward_kernel", launched):
        return op._softmax_forward(x)[0]
