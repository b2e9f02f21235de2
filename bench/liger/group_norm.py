"""Liger-Kernel's group norm (forward), launched by its own launcher.

A parameter of 0 leaves Liger's own choice, which is the default.
"""

from unittest.mock import patch

import torch
from liger_kernel.ops import group_norm as op

SPACE = {
    "BLOCK_SIZE": [0, 512, 1024, 2048, 4096, 8192, 16384, 32768],
    "num_warps": [0, 1, 2, 4, 8, 16, 32],
    "num_stages": [0, 1, 2, 3, 4],
}
SHAPES = [
    {"B": 16, "C": 320, "S": 4096},
    {"B": 16, "C": 640, "S": 1024},
    {"B": 4, "C": 512, "S": 16384},
    {"B": 2, "C": 128, "S": 65536},
]
HELD_OUT_SHAPES = [{"B": 6, "C": 320, "S": 9216}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


class Launched:
    """A Triton kernel with some launch options replaced."""

    def __init__(self, kernel, **options):
        self.kernel = kernel
        self.options = {name: value for name, value in options.items() if value}

    def __getitem__(self, grid):
        return lambda *args, **given: self.kernel[grid](*args, **{**given, **self.options})


def reference(x, w, b):
    return torch.nn.functional.group_norm(x, 32, w, b, 1e-6)


def inputs(B=16, C=320, S=4096, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(B, C, S, dtype=dtype, device=device)
    return x, torch.randn(C, dtype=dtype, device=device), torch.randn(C, dtype=dtype, device=device)


def valid(params, shape):
    """At least one element a thread, and no block beyond the group's next power of two."""
    block = params["BLOCK_SIZE"]
    if not block:
        return True
    return 32 * max(params["num_warps"], 4) <= block < 2 * shape["C"] // 32 * shape["S"]


def kernel(x, w, b, *, BLOCK_SIZE=0, num_warps=0, num_stages=0):
    options = {"BLOCK_SIZE": BLOCK_SIZE, "num_warps": num_warps, "num_stages": num_stages}
    launched = Launched(op._group_norm_forward_kernel, **options)
    with patch.object(op, "_group_norm_forward_kernel", launched):
        return op.group_norm_forward(x, x.shape[1], 32, w, b, 1e-6)[0]
