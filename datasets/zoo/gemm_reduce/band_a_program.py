"""A program keeps the maxima of a band of rows and goes through all columns, or a share of them."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_reduce.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [64, 128],
    "BLOCK_K": [32, 64, 128],
    "SHARES": [1, 8],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def band_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K, LENGTH, ATOMIC: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    best = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    first = tl.program_id(1) * LENGTH
    end = min(first + LENGTH, N)
    for start in range(first, end, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k0 in range(0, K, BLOCK_K):
            k = k0 + tl.arange(0, BLOCK_K)
            x_mask = (m[:, None] < M) & (k[None, :] < K)
            w_mask = (n[None, :] < end) & (k[:, None] < K)
            x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=x_mask, other=0.0)
            w = tl.load(w_ptr + n[None, :] * K + k[:, None], mask=w_mask, other=0.0)
            acc = tl.dot(x, w, acc)
        acc = tl.where(n[None, :] < end, acc, float("-inf"))
        best = tl.maximum(best, tl.max(acc, axis=1))
    if ATOMIC:
        tl.atomic_max(out_ptr + m, best, mask=m < M, sem="relaxed")
    else:
        tl.store(out_ptr + m, best, mask=m < M)


def valid(params, shape):
    """The pipelined tiles fit in shared memory, the accumulator in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    return shared <= 200 * 1024 and 16 <= m * n / (32 * params["num_warps"]) <= 64


def kernel(
    x, w, *, BLOCK_M=64, BLOCK_N=128, BLOCK_K=64, SHARES=8, num_warps=4, num_stages=3
):  # fmt: skip
    (M, K), N = x.shape, w.shape[0]
    out = torch.full((M,), float("-inf"), dtype=torch.float32, device=x.device)
    band_kernel[(triton.cdiv(M, BLOCK_M), SHARES)](
        x, w, out, M, N, K, triton.cdiv(N, SHARES), SHARES > 1, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
