"""Triton: tiles by pointers, a batch a layer of the grid."""

import torch
import triton
import triton.language as tl

from solkit.datasets.languages.matmul_batched.problem import (
    KIND,
    SHAPES,
    TOLERANCE,
    inputs,
    reference,
)

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [64, 128, 256],
    "BLOCK_K": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def matmul_batched(
    a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    row = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    layer = tl.program_id(2)
    depth = tl.arange(0, BLOCK_K)
    a_at = a + layer * M * K + row[:, None] * K + depth[None, :]
    b_at = b + layer * K * N + depth[:, None] * N + column[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        total = tl.dot(tl.load(a_at), tl.load(b_at), total)
        a_at += BLOCK_K
        b_at += BLOCK_K * N
    c_at = c + layer * M * N + row[:, None] * N + column[None, :]
    tl.store(c_at, total.to(c.dtype.element_ty))


def valid(params, shape):
    """A tile of results that fits in the registers of its warps."""
    return params["BLOCK_M"] * params["BLOCK_N"] <= 4096 * params["num_warps"]


def kernel(a, b, *, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=8, num_stages=3):
    B, M, K, N = *a.shape, b.shape[2]
    c = torch.empty(B, M, N, dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M), B)
    options = {"num_warps": num_warps, "num_stages": num_stages}
    matmul_batched[grid](a, b, c, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, **options)
    return c
