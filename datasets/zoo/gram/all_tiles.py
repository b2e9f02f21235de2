"""As if it were any product: every tile is computed, x being read as either operand."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gram.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def full_kernel(
    x_ptr, out_ptr, M, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    j = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        left_mask = (i[:, None] < M) & (k[None, :] < K)
        right_mask = (j[None, :] < M) & (k[:, None] < K)
        left = tl.load(x_ptr + i[:, None] * K + k[None, :], mask=left_mask, other=0.0)
        right = tl.load(x_ptr + j[None, :] * K + k[:, None], mask=right_mask, other=0.0)
        acc = tl.dot(left, right, acc)
    inside = (i[:, None] < M) & (j[None, :] < M)
    tl.store(out_ptr + i[:, None] * M + j[None, :], acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """The pipelined tiles fit in shared memory (227 KiB), the accumulator in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    return shared <= 227 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(x, *, BLOCK_M=64, BLOCK_N=128, BLOCK_K=32, num_warps=4, num_stages=3):
    M, K = x.shape
    out = torch.empty((M, M), dtype=x.dtype, device=x.device)
    full_kernel[(triton.cdiv(M, BLOCK_N), triton.cdiv(M, BLOCK_M))](
        x, out, M, K, BLOCK_M, BLOCK_N, BLOCK_K, num_warps=num_warps, num_stages=num_stages
    )
    return out
