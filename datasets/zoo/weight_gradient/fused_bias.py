"""One kernel; the programs of the first column also sum their columns of dy for the bias."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.weight_gradient.problem import (
    SHAPES,
    TOLERANCE,
    inputs,
    itemsize,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64, 128, 256],
    "BLOCK_T": [16, 32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def gradient_kernel(
    dy_ptr, x_ptr, dw_ptr, db_ptr, T, N, K,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_T: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.program_id(0) * BLOCK_K + tl.arange(0, BLOCK_K)
    t = tl.arange(0, BLOCK_T)
    dy_ptrs = dy_ptr + t[None, :] * N + n[:, None]  # read as its transpose
    x_ptrs = x_ptr + t[:, None] * K + k[None, :]
    first = tl.program_id(0) == 0
    acc = tl.zeros((BLOCK_N, BLOCK_K), dtype=tl.float32)
    bias = tl.zeros((BLOCK_N,), dtype=tl.float32)
    for t0 in range(0, T, BLOCK_T):
        dy = tl.load(dy_ptrs, mask=(n[:, None] < N) & (t[None, :] < T - t0), other=0.0)
        x = tl.load(x_ptrs, mask=(t[:, None] < T - t0) & (k[None, :] < K), other=0.0)
        acc = tl.dot(dy, x, acc)
        if first:
            bias += tl.sum(dy.to(tl.float32), axis=1)
        dy_ptrs += BLOCK_T * N
        x_ptrs += BLOCK_T * K
    inside = (n[:, None] < N) & (k[None, :] < K)
    dtype = dw_ptr.dtype.element_ty
    tl.store(dw_ptr + n[:, None] * K + k[None, :], acc.to(dtype), mask=inside)
    if first:
        tl.store(db_ptr + n, bias.to(dtype), mask=n < N)


def valid(params, shape):
    """The pipelined tiles fit in shared memory (227 KiB), the accumulator in registers."""
    n, k, t = params["BLOCK_N"], params["BLOCK_K"], params["BLOCK_T"]
    shared = params["num_stages"] * (n + k) * t * itemsize(shape)
    return shared <= 227 * 1024 and 8 <= n * k / (32 * params["num_warps"]) <= 128


def kernel(dy, x, *, BLOCK_N=64, BLOCK_K=128, BLOCK_T=32, num_warps=4, num_stages=3):
    (T, N), K = dy.shape, x.shape[1]
    dw = torch.empty((N, K), dtype=x.dtype, device=x.device)
    db = torch.empty(N, dtype=x.dtype, device=x.device)
    gradient_kernel[(triton.cdiv(K, BLOCK_K), triton.cdiv(N, BLOCK_N))](
        dy, x, dw, db, T, N, K, BLOCK_N, BLOCK_K, BLOCK_T,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return dw, db
