"""Liger's RMS norm of some rows a program, whole rows in registers."""

import torch
import triton
from liger_kernel.ops.rms_norm import _block_rms_norm_forward_kernel

from solkit.datasets.libraries.packages import check_installed
from solkit.datasets.zoo.rms_norm import problem
from solkit.datasets.zoo.rms_norm.problem import EPS, TOLERANCE, inputs, reference

check_installed("liger-kernel", "0.8.5")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
KIND = "norm"
SHAPES = [problem.SHAPES[place] for place in (1, 3, 5, 7)]
SPACE = {"BLOCK_ROW": [1, 2, 4, 8, 16], "num_warps": [2, 4, 8, 16, 32]}


def valid(params, shape):
    return params["BLOCK_ROW"] * triton.next_power_of_2(shape["N"]) <= 65536


def kernel(x, weight, *, BLOCK_ROW=1, num_warps=8):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    rstd = torch.empty(n_rows, dtype=torch.float32, device=x.device)
    _block_rms_norm_forward_kernel[(triton.cdiv(n_rows, BLOCK_ROW),)](
        y, y.stride(0), x, x.stride(0), weight, weight.stride(0), rstd, rstd.stride(0),
        n_rows, n_cols, EPS, 0.0, casting_mode=1, elementwise_affine=True,
        BLOCK_SIZE=triton.next_power_of_2(n_cols), BLOCK_ROW=BLOCK_ROW, num_warps=num_warps,
    )  # fmt: skip
    return y
