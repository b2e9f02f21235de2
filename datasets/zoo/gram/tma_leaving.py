"""TMA tiles on a square grid whose programs above the diagonal leave at once."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.datasets.zoo.gram.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [64, 128, 256],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def leaving_kernel(
    rows, columns, out_tiles, turned_tiles, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m, n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    if n >= m + BLOCK_M:
        return
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(rows.load([m, k]), columns.load([n, k]).T, acc)
    out = acc.to(out_tiles.dtype)
    out_tiles.store([m, n], out)
    turned_tiles.store([n, m], out.T)


def valid(params, shape):
    """Rows start at multiples of 16 bytes; operands and both results fit in shared memory."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    size = itemsize(shape)
    if shape["K"] * size % 16 or shape["M"] * size % 16 or m % n:
        return False
    shared = (params["num_stages"] * (m + n) * k + 2 * m * n) * size
    return shared <= 227 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(x, *, BLOCK_M=128, BLOCK_N=64, BLOCK_K=32, num_warps=4, num_stages=3):
    M, K = x.shape
    out = torch.empty((M, M), dtype=x.dtype, device=x.device)
    leaving_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(M, BLOCK_N))](
        TensorDescriptor.from_tensor(x, [BLOCK_M, BLOCK_K]),
        TensorDescriptor.from_tensor(x, [BLOCK_N, BLOCK_K]),
        TensorDescriptor.from_tensor(out, [BLOCK_M, BLOCK_N]),
        TensorDescriptor.from_tensor(out, [BLOCK_N, BLOCK_M]),
        K, BLOCK_M, BLOCK_N, BLOCK_K, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
