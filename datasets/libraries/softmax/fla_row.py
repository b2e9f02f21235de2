"""The softmax of flash-linear-attention: a row a program, warps alone may vary."""

import torch
import triton
from fla.ops.utils.softmax import softmax_fwd_kernel

from solkit.datasets.libraries.packages import check_installed
from solkit.datasets.zoo.softmax import problem
from solkit.datasets.zoo.softmax.problem import TOLERANCE, inputs, reference

check_installed("fla-core", "0.6.0")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]
KIND = "softmax"
SHAPES = [problem.SHAPES[place] for place in (1, 2, 4, 6)]
SPACE = {"num_warps": [1, 2, 4, 8, 16, 32], "num_stages": [1, 3]}
WITHOUT_TUNER = softmax_fwd_kernel.fn


def kernel(x, *, num_warps=4, num_stages=3):
    n, d = x.shape
    p = torch.empty_like(x)
    WITHOUT_TUNER[(n,)](
        x=x, p=p, D=d, B=triton.next_power_of_2(d), num_warps=num_warps, num_stages=num_stages
    )
    return p
