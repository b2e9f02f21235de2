"""Liger-Kernel's total variation distance, with its gradient, launched by its own launcher.

A parameter of 0 leaves Liger's own choice, which is the default.
"""

from unittest.mock import patch

import torch
from liger_kernel.ops import tvd as op

SPACE = {
    "BLOCK_SIZE": [0, 512, 1024, 2048, 4096, 8192, 16384, 32768],
    "num_warps": [0, 1, 2, 4, 8, 16, 32],
    "num_stages": [0, 1, 2, 3, 4],
}
SHAPES = [
    {"M": 4096, "V": 32000},
    {"M": 2048, "V": 128256},
    {"M": 8192, "V": 8192},
    {"M": 256, "V": 50304},
]
HELD_OUT_SHAPES = [{"M": 1000, "V": 100000}]
TOLERANCE = {"rtol": 1e-3, "atol": 1e-6}


class Launched:
    """A Triton kernel with some launch options replaced."""

    def __init__(self, kernel, **options):
        self.kernel = kernel
        self.options = {name: value for name, value in options.items() if value}

    def __getitem__(self, grid):
        return lambda *args, **given: self.kernel[grid](*args, **{**given, **self.options})


def reference(p, q):
    rows = p.shape[0]
    return (0.5 * (p - q).abs()).sum() / rows, 0.5 * torch.sign(p - q) / rows


def inputs(M=4096, V=32000, device="cuda"):
    return tuple(torch.softmax(torch.randn(M, V, device=device), dim=-1) for _ in range(2))


def valid(params, shape):
    """At least one element a thread, and no block beyond the row's next power of two."""
    block = params["BLOCK_SIZE"]
    if not block:
        return True
    return 32 * max(params["num_warps"], 4) <= block < 2 * shape["V"]


def kernel(p, q, *, BLOCK_SIZE=0, num_warps=0, num_stages=0):
    options = {"BLOCK_SIZE": BLOCK_SIZE, "num_warps": num_warps, "num_stages": num_stages}
    launched = Launched(op._tv_distance_kernel, **options)
    with patch.object(op, "_tv_distance_kernel", launched):
        return op.tv_distance_forward_triton(p, q, None, "batchmean", -100, False)
