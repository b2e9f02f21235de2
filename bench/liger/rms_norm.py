"""Liger-Kernel's RMS norm (forward, Llama's casting), launched by its own launcher.

A parameter of 0 leaves Liger's own choice, which is the default.
"""

from unittest.mock import patch

import torch
from liger_kernel.ops import rms_norm as op

SPACE = {"num_warps": [0, 1, 2, 4, 8, 16, 32], "row": ["auto", "row", "block"]}
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


def valid(params, shape):
    """Liger takes 16 rows a program where they are short and many; longer ones fill registers."""
    return params["row"] != "block" or shape["N"] <= 4096


def reference(x, w):
    scale = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6)
    return (x.float() * scale).to(x.dtype) * w


def inputs(M=8192, N=4096, dtype=torch.bfloat16, device="cuda"):
    return torch.randn(M, N, dtype=dtype, device=device), torch.randn(N, dtype=dtype, device=device)


def kernel(x, w, *, num_warps=0, row="auto"):
    if row == "block":
        return blocked(x, w, num_warps)
    row_mode = True if row == "row" else None
    one = Launched(op._rms_norm_forward_kernel, num_warps=num_warps)
    several = Launched(op._block_rms_norm_forward_kernel, num_warps=num_warps)
    with (
        patch.object(op, "_rms_norm_forward_kernel", one),
        patch.object(op, "_block_rms_norm_forward_kernel", several),
    ):
        return op.rms_norm_forward(x, w, 1e-6, 0.0, "llama", row_mode)[0]


def blocked(x, w, num_warps):
    """Liger's kernel of 16 rows a program, which its launcher keeps for short rows."""
    rows, columns = x.shape
    block, usual = op.calculate_settings(columns)
    y, rstd = torch.empty_like(x), torch.empty(rows, dtype=torch.float32, device=x.device)
    op._block_rms_norm_forward_kernel[((rows + 15) // 16,)](
        *(y, y.stride(0), x, x.stride(0), w, w.stride(0), rstd, rstd.stride(0)),
        *(rows, columns, 1e-6, 0.0, 0),
        elementwise_affine=True,
        BLOCK_SIZE=block,
        BLOCK_ROW=16,
        num_warps=num_warps or usual,
    )
    return y
