"""Liger-Kernel's Kullback-Leibler divergence (forward), launched by its own launcher.

A parameter of 0 leaves Liger's own choice, which is the default.
"""

from unittest.mock import patch

import torch
from liger_kernel.ops import kl_div as op

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
TOLERANCE = {"rtol": 1e-3, "atol": 1e-5}


class Launched:
    """A Triton kernel with some launch options replaced."""

    def __init__(self, kernel, **options):
        self.kernel = kernel
        self.options = {name: value for name, value in options.items() if value}

    def __getitem__(self, grid):
        return lambda *args, **given: self.kernel[grid](*args, **{**given, **self.options})


def reference(log_p, q):
    return torch.nn.functional.kl_div(log_p, q, reduction="batchmean")


def inputs(M=4096, V=32000, device="cuda"):
    log_p = torch.log_softmax(torch.randn(M, V, device=device), dim=-1)
    return log_p, torch.softmax(torch.randn(M, V, device=device), dim=-1)


def valid(params, shape):
    """At least one element a thread, and no block beyond the row's next power of two."""
    block = params["BLOCK_SIZE"]
    if not block:
        return True
    return 32 * max(params["num_warps"], 4) <= block < 2 * shape["V"]


def kernel(log_p, q, *, BLOCK_SIZE=0, num_warps=0, num_stages=0):
    options = {"BLOCK_SIZE": BLOCK_SIZE, "num_warps": num_warps, "num_stages": num_stages}
    launched = Launched(op._kldiv_kernel_forward, **options)
    with patch.object(op, "_kldiv_kernel_forward", launched):
        return op.kldiv_forward_triton(log_p, q, False, "batchmean", 1e-10)
