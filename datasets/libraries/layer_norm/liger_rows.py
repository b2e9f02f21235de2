"""Liger's layer norm, which keeps each row's mean and deviation for the backward pass."""

import torch
import triton
from liger_kernel.ops.layer_norm import _layer_norm_forward_kernel

from solkit.datasets.libraries.packages import check_installed
from solkit.datasets.zoo.layer_norm import problem
from solkit.datasets.zoo.layer_norm.problem import EPS, TOLERANCE, inputs, reference

check_installed("liger-kernel", "0.8.5")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]
KIND = "norm"
SHAPES = [problem.SHAPES[place] for place in (2, 4, 5, 7)]
SPACE = {"num_warps": [1, 2, 4, 8, 16, 32], "num_stages": [1, 3]}


def kernel(x, weight, bias, *, num_warps=8, num_stages=3):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    mean, rstd = (torch.empty(n_rows, dtype=x.dtype, device=x.device) for _ in range(2))
    _layer_norm_forward_kernel[(n_rows,)](
        y, y.stride(0), x, x.stride(0), weight, weight.stride(0), bias, bias.stride(0),
        mean, mean.stride(0), rstd, rstd.stride(0), n_cols, EPS,
        BLOCK_SIZE=triton.next_power_of_2(n_cols), num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return y
