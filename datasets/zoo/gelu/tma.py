"""Tiles that the TMA unit copies in and out; its rows must be multiples of 16 bytes."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.datasets.zoo.gelu.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [4, 8, 16, 32, 64],
    "BLOCK_N": [32, 64, 128, 256],
    "TILES": [1, 2, 4],
    "STAGES": [1, 2, 3],
    "num_warps": [2, 4, 8],
}


@triton.jit
def gelu_tma_kernel(
    x_tiles, out_tiles,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, TILES: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(1) * BLOCK_M
    first = tl.program_id(0) * TILES
    for tile in tl.range(first, first + TILES, num_stages=STAGES):
        x = x_tiles.load([m, tile * BLOCK_N]).to(tl.float32)
        y = 0.5 * x * (1.0 + tl.math.erf(x * 0.7071067811865476))
        out_tiles.store([m, tile * BLOCK_N], y.to(out_tiles.dtype))


def valid(params, shape):
    """Rows of 16-byte multiples, one to 64 elements a thread, tiles within shared memory."""
    size = 4 if shape["dtype"] == "float32" else 2
    tile = params["BLOCK_M"] * params["BLOCK_N"]
    shared = (params["STAGES"] + 1) * tile * size
    fits = 1 <= tile / (32 * params["num_warps"]) <= 64 and shared <= 227 * 1024
    steps = params["STAGES"] <= params["TILES"]
    wide = params["TILES"] * params["BLOCK_N"] <= shape["N"]
    return shape["N"] * size % 16 == 0 and fits and steps and wide


def kernel(x, *, BLOCK_M=16, BLOCK_N=128, TILES=2, STAGES=2, num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    gelu_tma_kernel[(triton.cdiv(N, BLOCK_N * TILES), triton.cdiv(M, BLOCK_M))](
        TensorDescriptor.from_tensor(x, [BLOCK_M, BLOCK_N]),
        TensorDescriptor.from_tensor(out, [BLOCK_M, BLOCK_N]),
        BLOCK_M, BLOCK_N, TILES, STAGES, num_warps=num_warps,
    )  # fmt: skip
    return out
