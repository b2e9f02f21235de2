"""Every weight loads its own byte, each byte so twice; K is split and meets in atomics."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_int4.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SPLIT": [1, 2, 4, 8],
    "BLOCK_M": [16, 32, 64],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def byte_twice_kernel(
    x_ptr, packed_ptr, scale_ptr, sum_ptr, M, N, K, GROUP: tl.constexpr, SPLIT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(tl.program_id(2) * BLOCK_K, K, SPLIT * BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        row = k[:, None]
        x_mask = (m[:, None] < M) & (k[None, :] < K)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=x_mask, other=0.0)
        inside = (row < K) & (n < N)
        byte = tl.load(packed_ptr + row // 2 * N + n, mask=inside, other=0)
        w = (byte >> (row % 2 * 4).to(tl.uint8)) & 15
        scale = tl.load(scale_ptr + row // GROUP * N + n, mask=inside, other=0.0)
        acc = tl.dot(x, (w.to(tl.float32) - 8).to(x.dtype) * scale, acc)
    tl.atomic_add(sum_ptr + m[:, None] * N + n, acc, mask=(m[:, None] < M) & (n < N))


@triton.jit
def round_kernel(sum_ptr, out_ptr, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(sum_ptr + at, mask=at < size)
    tl.store(out_ptr + at, total.to(out_ptr.dtype.element_ty), mask=at < size)


def valid(params, shape):
    """Tiles fit in shared memory and registers; parts have a block of K; rows not far beyond M."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    if k * params["SPLIT"] > shape["K"] or m >= 2 * max(16, shape["M"]):
        return False
    threads = 32 * params["num_warps"]
    shared = params["num_stages"] * (2 * m + 3 * n) * k + 2 * n * k
    return shared <= 227 * 1024 and 2 <= m * n / threads <= 64 and n * k / threads <= 64


def kernel(
    x, packed, scales, group, *, SPLIT=4, BLOCK_M=16, BLOCK_N=64, BLOCK_K=64,
    num_warps=4, num_stages=2,
):  # fmt: skip
    (M, K), N = x.shape, packed.shape[1]
    total = torch.zeros((M, N), dtype=torch.float32, device=x.device)
    byte_twice_kernel[(triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M), SPLIT)](
        x, packed, scales, total, M, N, K, group, SPLIT, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    round_kernel[(triton.cdiv(M * N, 1024),)](total, out, M * N, 1024)
    return out
