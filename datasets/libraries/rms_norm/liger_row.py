"""Liger's RMS norm of a row a program: warps are all that may vary."""

import torch
import triton
from liger_kernel.ops.rms_norm import _rms_norm_forward_kernel

from solkit.datasets.libraries.packages import check_installed
from solkit.datasets.zoo.rms_norm import problem
from solkit.datasets.zoo.rms_norm.problem import EPS, TOLERANCE, inputs, reference

check_installed("liger-kernel", "0.8.5")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]
KIND = "norm"
SHAPES = [problem.SHAPES[place] for place in (1, 3, 5, 7)]
SPACE = {"num_warps": [1, 2, 4, 8, 16, 32]}


def kernel(x, weight, *, num_warps=8):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    rstd = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    _rms_norm_forward_kernel[(n_rows,)](
        y, y.stride(0), x, x.stride(0), weight, weight.stride(0), rstd, rstd.stride(0),
        n_cols, EPS, 0.0, casting_mode=1, elementwise_affine=True,
        BLOCK_SIZE=triton.next_power_of_2(n_cols), num_warps=num_warps,
    )  # fmt: skip
    return y
