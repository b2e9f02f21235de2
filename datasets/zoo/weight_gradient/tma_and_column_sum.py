"""TMA tiles, turned on their way to the tensor cores; a column-sum kernel for the bias."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.datasets.zoo.weight_gradient.problem import (
    SHAPES,
    TOLERANCE,
    inputs,
    itemsize,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_N": [64, 128],
    "BLOCK_K": [32, 64, 128, 256],
    "BLOCK_T": [32, 64, 128],
    "SUM_ROWS": [32, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def turned_kernel(
    dy_tiles, x_tiles, dw_tiles, T,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_T: tl.constexpr,
):  # fmt: skip
    n, k = tl.program_id(0) * BLOCK_N, tl.program_id(1) * BLOCK_K
    acc = tl.zeros((BLOCK_N, BLOCK_K), dtype=tl.float32)
    for t in range(0, T, BLOCK_T):
        acc = tl.dot(dy_tiles.load([t, n]).T, x_tiles.load([t, k]), acc)
    dw_tiles.store([n, k], acc.to(dw_tiles.dtype))


@triton.jit
def column_sum_kernel(dy_ptr, db_ptr, T, N, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    n = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for t0 in range(0, T, ROWS):
        t = t0 + tl.arange(0, ROWS)
        mask = (t[:, None] < T) & (n[None, :] < N)
        total += tl.load(dy_ptr + t[:, None] * N + n[None, :], mask=mask, other=0.0).to(tl.float32)
    tl.store(db_ptr + n, tl.sum(total, axis=0).to(db_ptr.dtype.element_ty), mask=n < N)


def valid(params, shape):
    """Rows start at multiples of 16 bytes; tiles and result fit in shared memory."""
    n, k, t = params["BLOCK_N"], params["BLOCK_K"], params["BLOCK_T"]
    size = itemsize(shape)
    if shape["N"] * size % 16 or shape["K"] * size % 16:
        return False
    shared = (params["num_stages"] * (n + k) * t + n * k) * size
    return shared <= 227 * 1024 and 8 <= n * k / (32 * params["num_warps"]) <= 128


def kernel(dy, x, *, BLOCK_N=64, BLOCK_K=64, BLOCK_T=64, SUM_ROWS=128, num_warps=4, num_stages=3):
    (T, N), K = dy.shape, x.shape[1]
    dw = torch.empty((N, K), dtype=x.dtype, device=x.device)
    db = torch.empty(N, dtype=x.dtype, device=x.device)
    turned_kernel[(triton.cdiv(N, BLOCK_N), triton.cdiv(K, BLOCK_K))](
        TensorDescriptor.from_tensor(dy, [BLOCK_T, BLOCK_N]),
        TensorDescriptor.from_tensor(x, [BLOCK_T, BLOCK_K]),
        TensorDescriptor.from_tensor(dw, [BLOCK_N, BLOCK_K]),
        T, BLOCK_N, BLOCK_K, BLOCK_T, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    column_sum_kernel[(triton.cdiv(N, 16),)](dy, db, T, N, SUM_ROWS, 16)
    return dw, db
