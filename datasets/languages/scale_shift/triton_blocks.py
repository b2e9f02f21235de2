"""Triton: a block of consecutive elements a program."""

import torch
import triton
import triton.language as tl

from solkit.datasets.languages.scale_shift.problem import KIND, SHAPES, TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]

SPACE = {"BLOCK": [512, 1024, 2048, 4096, 8192], "num_warps": [2, 4, 8]}


@triton.jit
def scale_shift(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n)
    tl.store(y + at, values * 1.5 + 0.25, mask=at < n)


def kernel(x, *, BLOCK=1024, num_warps=4):
    y = torch.empty_like(x)
    n = x.numel()
    scale_shift[(triton.cdiv(n, BLOCK),)](x, y, n, BLOCK, num_warps=num_warps)
    return y
