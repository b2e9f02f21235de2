"""Tiles copied by the TMA unit through descriptors made on the host."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.datasets.zoo.gemm.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [64, 128, 256],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [32, 64, 128],
    "BY_COLUMN": [False, True],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def tma_kernel(
    x_tiles, w_tiles, out_tiles, K, BY_COLUMN: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0 if BY_COLUMN else 1) * BLOCK_M
    n = tl.program_id(1 if BY_COLUMN else 0) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(x_tiles.load([m, k]), w_tiles.load([k, n]), acc)
    out_tiles.store([m, n], acc.to(out_tiles.dtype))


def valid(params, shape):
    """Rows start at multiples of 16 bytes; tiles and result fit in shared memory."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    size = itemsize(shape)
    if shape["K"] * size % 16 or shape["N"] * size % 16:
        return False
    shared = (params["num_stages"] * (m + n) * k + m * n) * size
    return shared <= 227 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, *, BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, BY_COLUMN=True, num_warps=8, num_stages=4
):  # fmt: skip
    (M, K), N = x.shape, w.shape[1]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    tma_kernel[grid if BY_COLUMN else grid[::-1]](
        TensorDescriptor.from_tensor(x, [BLOCK_M, BLOCK_K]),
        TensorDescriptor.from_tensor(w, [BLOCK_K, BLOCK_N]),
        TensorDescriptor.from_tensor(out, [BLOCK_M, BLOCK_N]),
        K, BY_COLUMN, BLOCK_M, BLOCK_N, BLOCK_K, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
