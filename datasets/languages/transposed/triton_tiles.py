"""Triton: a tile a program, transposed in registers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.languages.transposed.problem import KIND, SHAPES, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "inputs", "kernel", "reference"]

SPACE = {"BLOCK_M": [32, 64, 128], "BLOCK_N": [32, 64, 128], "num_warps": [4, 8]}


@triton.jit
def transpose(x, y, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    row = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    tile = tl.load(x + row[:, None] * N + column[None, :])
    tl.store(y + column[:, None] * M + row[None, :], tl.trans(tile))


def kernel(x, *, BLOCK_M=64, BLOCK_N=64, num_warps=4):
    M, N = x.shape
    y = torch.empty(N, M, dtype=x.dtype, device=x.device)
    grid = (N // BLOCK_N, M // BLOCK_M)
    transpose[grid](x, y, M, N, BLOCK_M, BLOCK_N, num_warps=num_warps)
    return y
