"""TMA tiles of x, gate and up for persistent programs."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.datasets.zoo.gated_mlp.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PROGRAMS": [132, 264],
    "BLOCK_M": [64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def tma_gated_kernel(
    x_tiles, gate_tiles, up_tiles, out_tiles, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tiles_m = tl.cdiv(M, BLOCK_M)
    for tile in range(tl.program_id(0), tiles_m * tl.cdiv(N, BLOCK_N), tl.num_programs(0)):
        m, n = tile % tiles_m * BLOCK_M, tile // tiles_m * BLOCK_N
        gated = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        linear = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            x = x_tiles.load([m, k])
            gated = tl.dot(x, gate_tiles.load([k, n]), gated)
            linear = tl.dot(x, up_tiles.load([k, n]), linear)
        out = gated * tl.sigmoid(gated) * linear
        out_tiles.store([m, n], out.to(out_tiles.dtype))


def valid(params, shape):
    """Rows start at multiples of 16 bytes; tiles and result fit in shared memory."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    size = itemsize(shape)
    if shape["K"] * size % 16 or shape["N"] * size % 16:
        return False
    shared = (params["num_stages"] * (m + 2 * n) * k + m * n) * size
    return shared <= 227 * 1024 and 8 <= 2 * m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, gate, up, *, PROGRAMS=132, BLOCK_M=128, BLOCK_N=64, BLOCK_K=32, num_warps=8, num_stages=3
):  # fmt: skip
    (M, K), N = x.shape, gate.shape[1]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    tma_gated_kernel[(min(PROGRAMS, tiles),)](
        TensorDescriptor.from_tensor(x, [BLOCK_M, BLOCK_K]),
        TensorDescriptor.from_tensor(gate, [BLOCK_K, BLOCK_N]),
        TensorDescriptor.from_tensor(up, [BLOCK_K, BLOCK_N]),
        TensorDescriptor.from_tensor(out, [BLOCK_M, BLOCK_N]),
        M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
