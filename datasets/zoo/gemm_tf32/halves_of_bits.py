"""Each factor as a sum of two fp16 numbers: three or four products of those on the tensor cores."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_tf32.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [64, 128],
    "BLOCK_K": [32, 64],
    "TERMS": [3, 4],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def halves_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K, TERMS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + m[:, None] * K + k[None, :]
    w_ptrs = w_ptr + k[:, None] * N + n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        inside = k < K - k0
        x = tl.load(x_ptrs, mask=(m[:, None] < M) & inside[None, :], other=0.0)
        w = tl.load(w_ptrs, mask=inside[:, None] & (n[None, :] < N), other=0.0)
        x_high, w_high = x.to(tl.float16), w.to(tl.float16)
        x_low = (x - x_high.to(tl.float32)).to(tl.float16)
        w_low = (w - w_high.to(tl.float32)).to(tl.float16)
        if TERMS == 4:
            acc = tl.dot(x_low, w_low, acc)
        acc = tl.dot(x_low, w_high, acc)
        acc = tl.dot(x_high, w_low, acc)
        acc = tl.dot(x_high, w_high, acc)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K * N
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc, mask=inside)


def valid(params, shape):
    """Tiles, as loaded and in parts, fit in shared memory; the accumulator in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = (params["num_stages"] + 1) * (m + n) * k * 4
    return shared <= 227 * 1024 and 16 <= m * n / (32 * params["num_warps"]) <= 64


def kernel(
    x, w, *, BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, TERMS=3, num_warps=8, num_stages=2
):  # fmt: skip
    (M, K), N = x.shape, w.shape[1]
    out = torch.empty((M, N), dtype=torch.float32, device=x.device)
    halves_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](
        x, w, out, M, N, K, TERMS, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
