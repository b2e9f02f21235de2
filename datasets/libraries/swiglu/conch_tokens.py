"""Conch's silu-and-mul: a token a program, in a loop over its packed row."""

import torch
from conch.kernels.activation.silu_and_mul import _silu_and_mul_kernel

from solkit.datasets.libraries.packages import check_installed
from solkit.datasets.zoo.swiglu import problem
from solkit.datasets.zoo.swiglu.problem import TOLERANCE, inputs, reference

check_installed("conch-triton-kernels", "1.3")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]
KIND = "elementwise"
SHAPES = [problem.SHAPES[place] for place in (1, 3, 4, 6)]
SPACE = {
    "cxpr_block_size": [256, 512, 1024, 2048, 4096, 8192],
    "num_warps": [1, 2, 4, 8],
}


def kernel(x, *, cxpr_block_size=1024, num_warps=4):
    d = x.size(-1) // 2
    output = torch.empty(x.shape[0], d, dtype=x.dtype, device=x.device)
    _silu_and_mul_kernel[(x.shape[0],)](
        output_ptr=output, x_ptr=x, output_stride=output.stride(-2), input_stride=x.stride(-2),
        d=d, cxpr_block_size=cxpr_block_size, num_warps=num_warps,
    )  # fmt: skip
    return output
