"""Both matrices dequantised to 16 bits in memory by a kernel each, then an ordinary product."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_fp8_blockwise.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [64, 128, 256],
    "BLOCK_K": [32, 64],
    "ROWS": [4, 16],
    "num_warps": [4, 8],
    "num_stages": [3, 4],
}


@triton.jit
def widen_kernel(
    x_ptr, scale_ptr, out_ptr, M, K, SHARED_ROWS: tl.constexpr, ROWS: tl.constexpr
):  # fmt: skip
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    block = tl.program_id(1)
    at = m[:, None] * K + block * 128 + tl.arange(0, 128)[None, :]
    x = tl.load(x_ptr + at, mask=m[:, None] < M, other=0.0).to(tl.float32)
    scale = tl.load(scale_ptr + m // SHARED_ROWS * (K // 128) + block, mask=m < M, other=0.0)
    wide = (x * scale[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + at, wide, mask=m[:, None] < M)


@triton.jit
def product_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):  # K is a multiple of 128
        k = k0 + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=m[:, None] < M, other=0.0)
        w = tl.load(w_ptr + n[:, None] * K + k[None, :], mask=n[:, None] < N, other=0.0)
        acc = tl.dot(x, w.T, acc)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Tiles fit in shared memory, sums in registers; no tile far higher than the result."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    fits = params["num_stages"] * (m + n) * k * 2 <= 227 * 1024 and m < 2 * shape["M"]
    return fits and 16 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, x_scale, w_scale, dtype, *, BLOCK_M=64, BLOCK_N=128, BLOCK_K=64, ROWS=16,
    num_warps=4, num_stages=4,
):  # fmt: skip
    (M, K), N = x.shape, w.shape[0]
    left, right = (torch.empty(each.shape, dtype=dtype, device=x.device) for each in (x, w))
    widen_kernel[(triton.cdiv(M, ROWS), K // 128)](x, x_scale, left, M, K, 1, ROWS)
    widen_kernel[(triton.cdiv(N, ROWS), K // 128)](w, w_scale, right, N, K, 128, ROWS)
    out = torch.empty((M, N), dtype=dtype, device=x.device)
    product_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](
        left, right, out, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
