"""Bytes are unpacked in registers and the two halves woven together along K, then multiplied."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_int4.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def woven_kernel(
    x_ptr, packed_ptr, scale_ptr, out_ptr, M, N, K, GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        half = k0 // 2 + tl.arange(0, BLOCK_K // 2)
        x_mask = (m[:, None] < M) & (k[None, :] < K)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=x_mask, other=0.0)
        byte_mask = (half[:, None] < K // 2) & (n[None, :] < N)
        byte = tl.load(packed_ptr + half[:, None] * N + n[None, :], mask=byte_mask, other=0)
        nibbles = tl.join(byte & 15, byte >> 4)  # [K / 2, N, 2]
        w = nibbles.permute(0, 2, 1).reshape(BLOCK_K, BLOCK_N).to(x.dtype) - 8
        # A block of K may lie in one group or go through several.
        if BLOCK_K <= GROUP:
            scale = tl.load(scale_ptr + k0 // GROUP * N + n, mask=n < N, other=0.0)[None, :]
        else:
            groups = (k // GROUP)[:, None] * N + n[None, :]
            scale = tl.load(scale_ptr + groups, mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(x, w * scale, acc)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Tiles fit in shared memory; sums and unpacked weights in registers; rows not far beyond M."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    threads = 32 * params["num_warps"]
    shared = params["num_stages"] * (2 * m + n // 2) * k + 2 * n * k
    near = m < 2 * max(16, shape["M"])
    return near and shared <= 227 * 1024 and 4 <= m * n / threads <= 128 and n * k / threads <= 128


def kernel(
    x, packed, scales, group, *, BLOCK_M=16, BLOCK_N=64, BLOCK_K=32, num_warps=4, num_stages=3
):  # fmt: skip
    (M, K), N = x.shape, packed.shape[1]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    woven_kernel[(triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M))](
        x, packed, scales, out, M, N, K, group, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
