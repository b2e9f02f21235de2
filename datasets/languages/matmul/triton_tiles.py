"""Triton: tiles by pointers, programs of a group share columns."""

import torch
import triton
import triton.language as tl

from solkit.datasets.languages.matmul.problem import KIND, SHAPES, TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [64, 128, 256],
    "BLOCK_N": [64, 128, 256],
    "BLOCK_K": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [3, 4],
}


@triton.jit
def matmul(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    first, group = tl.program_id(0), 8 * tl.cdiv(N, BLOCK_N)
    size = min(tl.cdiv(M, BLOCK_M) - first // group * 8, 8)
    row = (first // group * 8 + first % group % size) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = first % group // size * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_at = a + row[:, None] * K + depth[None, :]
    b_at = b + depth[:, None] * N + column[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        total = tl.dot(tl.load(a_at), tl.load(b_at), total)
        a_at += BLOCK_K
        b_at += BLOCK_K * N
    tl.store(c + row[:, None] * N + column[None, :], total.to(c.dtype.element_ty))


def valid(params, shape):
    """At least 16 KiB a tile of results, no more than 64 KiB a warp group."""
    area = params["BLOCK_M"] * params["BLOCK_N"]
    return 4096 < area <= 32768 and (area <= 16384 or params["num_warps"] == 8)


def kernel(a, b, *, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=8, num_stages=3):
    M, K, N = *a.shape, b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    options = {"num_warps": num_warps, "num_stages": num_stages}
    matmul[grid](a, b, c, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, **options)
    return c
