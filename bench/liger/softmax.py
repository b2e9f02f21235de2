"""Liger-Kernel's softmax (forward), launched by its own launcher.

A parameter of 0 leaves Liger's own choice, which is the default.
"""

from unittest.mock import patch

import torch
from liger_kernel.ops import softmax as op

SPACE = {
    "BLOCK_SIZE": [0, 512, 1024, 2048, 4096, 8192],  # 0: Liger's choice, a row at once
    "num_warps": [0, 1, 2, 4, 8, 16, 32],
    "num_stages": [0, 1, 2, 3, 4],
}
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


def valid(params, shape):
    """Stages pipeline the loop over blocks, which a row at once does not have."""
    block = params["BLOCK_SIZE"]
    if not block:
        return params["num_stages"] == 0
    return 32 * max(params["num_warps"], 4) <= block < shape["N"]


def kernel(x, *, BLOCK_SIZE=0, num_warps=0, num_stages=0):
    if not BLOCK_SIZE:
        launched = Launched(op._softmax_single_block_forward_kernel, num_warps=num_warps)
        with patch.object(op, "_softmax_single_block_forward_kernel", launched):
            return op._softmax_forward(x)[0]
    y = torch.empty_like(x)
    options = {"num_warps": num_warps or 4, "num_stages": num_stages or 3}
    op._softmax_multi_block_forward_kernel[(x.shape[0],)](
        y, y.stride(0), x, x.stride(0), x.shape[1], BLOCK_SIZE=BLOCK_SIZE, **options
    )
    return y
