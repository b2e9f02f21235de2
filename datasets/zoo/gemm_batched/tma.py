"""TMA copies the tiles through descriptors of three dimensions, the first being the batch."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.datasets.zoo.gemm_batched.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [64, 128, 256],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def tma_batched_kernel(
    x_tiles, y_tiles, out_tiles, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m, n, entry = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N, tl.program_id(2)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        x = x_tiles.load([entry, m, k]).reshape(BLOCK_M, BLOCK_K)
        y = y_tiles.load([entry, k, n]).reshape(BLOCK_K, BLOCK_N)
        acc = tl.dot(x, y, acc)
    out = acc.to(out_tiles.dtype).reshape(1, BLOCK_M, BLOCK_N)
    out_tiles.store([entry, m, n], out)


def valid(params, shape):
    """Rows start at multiples of 16 bytes; tiles fit in shared memory and near the matrix."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    size = itemsize(shape)
    if shape["K"] * size % 16 or shape["N"] * size % 16:
        return False
    near = m <= max(64, 2 * shape["M"]) and n <= max(64, 2 * shape["N"])
    shared = (params["num_stages"] * (m + n) * k + m * n) * size
    return near and shared <= 227 * 1024 and 4 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(x, y, *, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=4, num_stages=3):
    (B, M, K), N = x.shape, y.shape[2]
    out = torch.empty((B, M, N), dtype=x.dtype, device=x.device)
    tma_batched_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N), B)](
        TensorDescriptor.from_tensor(x, [1, BLOCK_M, BLOCK_K]),
        TensorDescriptor.from_tensor(y, [1, BLOCK_K, BLOCK_N]),
        TensorDescriptor.from_tensor(out, [1, BLOCK_M, BLOCK_N]),
        K, BLOCK_M, BLOCK_N, BLOCK_K, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
