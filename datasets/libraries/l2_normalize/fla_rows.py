"""Rows over their lengths, by flash-linear-attention: tiles of whole rows."""

import torch
import triton
from fla.modules.norm.l2norm import l2norm_fwd_kernel

from solkit.datasets.libraries.packages import check_installed
from solkit.datasets.zoo.l2_normalize import problem
from solkit.datasets.zoo.l2_normalize.problem import TOLERANCE, inputs, reference

check_installed("fla-core", "0.6.0")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
KIND = "norm"
SHAPES = [problem.SHAPES[place] for place in (0, 1, 2)]
SPACE = {"BT": [1, 2, 4, 8, 16, 32, 64, 128], "num_warps": [1, 2, 4, 8, 16]}
WITHOUT_TUNER = l2norm_fwd_kernel.fn


def valid(params, shape):
    tile = params["BT"] * triton.next_power_of_2(shape["N"])
    return tile / (32 * params["num_warps"]) <= 256


def kernel(x, *, BT=16, num_warps=4):
    T, D = x.shape
    y = torch.empty_like(x)
    rstd = torch.empty((T,), dtype=torch.float32, device=x.device)
    WITHOUT_TUNER[(triton.cdiv(T, BT),)](
        x, y, rstd, 1e-12, T, D=D, BD=triton.next_power_of_2(D), NB=triton.cdiv(T, 65536), BT=BT,
        num_warps=num_warps,
    )  # fmt: skip
    return y
