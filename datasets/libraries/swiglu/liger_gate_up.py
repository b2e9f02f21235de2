"""Liger's SwiGLU over packed rows: a whole row a program, warps alone may vary."""

import torch
import triton
from liger_kernel.ops.swiglu import _swiglu_fused_gate_up_forward_kernel

from solkit.datasets.libraries.packages import check_installed
from solkit.datasets.zoo.swiglu import problem
from solkit.datasets.zoo.swiglu.problem import TOLERANCE, inputs, reference

check_installed("liger-kernel", "0.8.5")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]
KIND = "elementwise"
SHAPES = [problem.SHAPES[place] for place in (1, 3, 4, 6)]
SPACE = {"num_warps": [1, 2, 4, 8, 16, 32], "num_stages": [1, 3]}


def kernel(y, *, num_warps=16, num_stages=3):
    rows, ffn_size = y.shape[0], y.shape[1] // 2
    c = torch.empty(rows, ffn_size, dtype=y.dtype, device=y.device)
    _swiglu_fused_gate_up_forward_kernel[(rows,)](
        y, c, y.stride(-2), c.stride(-2), ffn_size=ffn_size,
        BLOCK_SIZE=triton.next_power_of_2(ffn_size), num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return c
