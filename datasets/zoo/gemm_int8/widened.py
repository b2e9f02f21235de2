"""Widened to 16 bits, which hold any int8 exactly, and summed in fp32."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_int8.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [16, 32, 64, 128],
    "WIDEN_X_ONCE": [False, True],  # a pass over x beforehand, or again in every program
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def widen_kernel(x_ptr, wide_ptr, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(wide_ptr + at, tl.load(x_ptr + at, mask=at < size).to(tl.float16), mask=at < size)


@triton.jit
def widened_kernel(
    x_ptr, w_ptr, x_scale_ptr, w_scale_ptr, out_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tiles_m = tl.cdiv(M, BLOCK_M)
    m = tl.program_id(0) % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) // tiles_m * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        k = step * BLOCK_K + tl.arange(0, BLOCK_K)
        x_mask = (m[:, None] < M) & (k[None, :] < K)
        w_mask = (n[None, :] < N) & (k[:, None] < K)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=x_mask, other=0).to(tl.float16)
        w = tl.load(w_ptr + n[None, :] * K + k[:, None], mask=w_mask, other=0).to(tl.float16)
        acc = tl.dot(x, w, acc)
    acc *= tl.load(x_scale_ptr + m, mask=m < M, other=0.0)[:, None]
    acc *= tl.load(w_scale_ptr + n, mask=n < N, other=0.0)[None, :]
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Tiles as loaded and as widened fit in shared memory; 4 to 64 sums a thread."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (2 * m + n) * k + 2 * n * k
    return shared <= 227 * 1024 and 4 <= m * n / (32 * params["num_warps"]) <= 64


def kernel(
    x, w, x_scale, w_scale, dtype, *, BLOCK_M=64, BLOCK_N=64, BLOCK_K=64, WIDEN_X_ONCE=True,
    num_warps=4, num_stages=3,
):  # fmt: skip
    (M, K), N = x.shape, w.shape[0]
    if WIDEN_X_ONCE:
        wide = torch.empty_like(x, dtype=torch.float16)
        widen_kernel[(triton.cdiv(M * K, 2048),)](x, wide, M * K, 2048)
        x = wide
    out = torch.empty((M, N), dtype=dtype, device=x.device)
    widened_kernel[(triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)](
        x, w, x_scale, w_scale, out, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
