"""Triton: tiles by tensor descriptors, which Hopper copies in bulk."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.datasets.languages.matmul_silu.problem import KIND, SHAPES, TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [64, 128, 256],
    "BLOCK_N": [64, 128, 256],
    "BLOCK_K": [64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def linear_silu(x, weight, bias, y, K):
    BLOCK_M: tl.constexpr = x.block_shape[0]
    BLOCK_N: tl.constexpr = weight.block_shape[0]
    BLOCK_K: tl.constexpr = x.block_shape[1]
    row, column = tl.program_id(1) * BLOCK_M, tl.program_id(0) * BLOCK_N
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        total = tl.dot(x.load([row, k]), weight.load([column, k]).T, total)
    total += tl.load(bias + column + tl.arange(0, BLOCK_N)).to(tl.float32)[None, :]
    y.store([row, column], (total * tl.sigmoid(total)).to(tl.bfloat16))


def valid(params, shape):
    """Tiles that fit in the registers of the warps and in shared memory."""
    m, n, k = (params[f"BLOCK_{axis}"] for axis in "MNK")
    return (
        2048 <= m * n / params["num_warps"] <= 4096 and (m + n) * k * params["num_stages"] < 98304
    )


def kernel(x, weight, bias, *, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=8, num_stages=3):
    M, K, N = *x.shape, weight.shape[0]
    y = torch.empty(M, N, dtype=x.dtype, device=x.device)
    tiles = [
        TensorDescriptor.from_tensor(tensor, list(block))
        for tensor, block in ((x, (BLOCK_M, BLOCK_K)), (weight, (BLOCK_N, BLOCK_K)))
    ]
    result = TensorDescriptor.from_tensor(y, [BLOCK_M, BLOCK_N])
    grid = (N // BLOCK_N, M // BLOCK_M)
    options = {"num_warps": num_warps, "num_stages": num_stages}
    linear_silu[grid](*tiles, bias, result, K, **options)
    return y
