"""Liger-Kernel's layer norm (forward), launched by its own launcher.

A parameter of 0 leaves Liger's own choice, which is the default.
"""

from unittest.mock import patch

import torch
from liger_kernel.ops import layer_norm as op

SPACE = {"num_warps": [0, 1, 2, 4, 8, 16, 32]}
SHAPES = [
    {"M": 16384, "N": 2048},
    {"M": 8192, "N": 4096},
    {"M": 4096, "N": 8192},
    {"M": 64, "N": 4096},
]
HELD_OUT_SHAPES = [{"M": 6000, "N": 3072}]


class Launched:
    """A Triton kernel with some launch options replaced."""

    def __init__(self, kernel, **options):
        self.kernel = kernel
        self.options = {name: value for name, value in options.items() if value}

    def __getitem__(self, grid):
        return lambda *args, **given: self.kernel[grid](*args, **{**given, **self.options})


def reference(x, w, b):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], w, b, 1e-6)


def inputs(M=8192, N=4096, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, N, dtype=dtype, device=device)
    return x, torch.randn(N, dtype=dtype, device=device), torch.randn(N, dtype=dtype, device=device)


def kernel(x, w, b, *, num_warps=0):
    launched = Launched(op._layer_norm_forward_kernel, num_warps=num_warps)
    with patch.object(op, "_layer_norm_forward_kernel", launched):
        return op.layer_norm_forward(x, w, b, 1e-6)[0]
