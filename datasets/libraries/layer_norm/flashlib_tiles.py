"""Flashlib's layer norm: tiles of whole rows, the spread taken about the mean."""

import torch
import triton
from flashlib.kernels.norm.triton.norm import _layernorm_fwd_kernel

from solkit.datasets.libraries.packages import check_installed
from solkit.datasets.zoo.layer_norm import problem
from solkit.datasets.zoo.layer_norm.problem import EPS, TOLERANCE, inputs, reference

check_installed("flashlib", "0.4.0")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
KIND = "norm"
SHAPES = [problem.SHAPES[place] for place in (2, 4, 5, 7)]
SPACE = {"BLOCK_M": [1, 2, 4, 8, 16], "num_warps": [1, 2, 4, 8, 16]}


def valid(params, shape):
    tile = params["BLOCK_M"] * triton.next_power_of_2(shape["N"])
    return 4 <= tile / (32 * params["num_warps"]) <= 512


def kernel(x, weight, bias, *, BLOCK_M=1, num_warps=8):
    M, N = x.shape
    y = torch.empty_like(x)
    _layernorm_fwd_kernel[(triton.cdiv(M, BLOCK_M),)](
        x, y, weight, bias, x.stride(0), y.stride(0), M, N, triton.next_power_of_2(N), EPS,
        HAS_W=True, HAS_B=True, BLOCK_M=BLOCK_M, num_warps=num_warps,
    )  # fmt: skip
    return y
