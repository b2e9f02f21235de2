"""Tiles copied by the TMA unit both ways, and turned over in registers in between."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.datasets.zoo.transpose.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128, 256],
    "BLOCK_N": [16, 32, 64, 128, 256],
    "LOOP": [1, 2, 4],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def tma_kernel(
    x_tiles, out_tiles, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, LOOP: tl.constexpr
):
    n = tl.program_id(0) * BLOCK_N
    for step in range(LOOP):
        m = (tl.program_id(1) * LOOP + step) * BLOCK_M
        x = x_tiles.load([m, n])
        out_tiles.store([n, m], x.T)


def valid(params, shape):
    """Rows of 16 bytes' multiples on both sides, and tiles that fit in shared memory."""
    m, n = params["BLOCK_M"], params["BLOCK_N"]
    size = {"float32": 4, "int8": 1}.get(str(shape["dtype"]).removeprefix("torch."), 2)
    aligned = shape["M"] * size % 16 == 0 and shape["N"] * size % 16 == 0
    fits = m * params["LOOP"] < 2 * shape["M"] and n < 2 * shape["N"] and m * n * size <= 65536
    each = m * n / (32 * params["num_warps"])
    return aligned and fits and min(m, n) * size >= 16 and 2 <= each <= 128


def kernel(x, *, BLOCK_M=32, BLOCK_N=64, LOOP=1, num_warps=4):
    M, N = x.shape
    out = torch.empty((N, M), dtype=x.dtype, device=x.device)
    x_tiles = TensorDescriptor.from_tensor(x, [BLOCK_M, BLOCK_N])
    out_tiles = TensorDescriptor.from_tensor(out, [BLOCK_N, BLOCK_M])
    grid = (triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M * LOOP))
    tma_kernel[grid](x_tiles, out_tiles, BLOCK_M, BLOCK_N, LOOP, num_warps=num_warps)
    return out
