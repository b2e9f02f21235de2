"""Split K with exact int32 atomics: the order of the parts cannot change the result."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_int8.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SPLIT": [1, 2, 4, 8],
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def int_atomic_kernel(
    x_ptr, w_ptr, sum_ptr, M, N, K, LENGTH,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    first = tl.program_id(2) * LENGTH
    k = first + tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + m[:, None] * K + k[None, :]
    w_ptrs = w_ptr + n[:, None] * K + k[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for k0 in range(0, min(LENGTH, K - first), BLOCK_K):
        x = tl.load(x_ptrs, mask=(m[:, None] < M) & (k[None, :] < K - k0), other=0)
        w = tl.load(w_ptrs, mask=(n[:, None] < N) & (k[None, :] < K - k0), other=0)
        acc += tl.dot(x, tl.trans(w))
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.atomic_add(sum_ptr + m[:, None] * N + n[None, :], acc, mask=inside, sem="relaxed")


@triton.jit
def dequantise_kernel(sum_ptr, x_scale_ptr, w_scale_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_scale = tl.load(x_scale_ptr + row)
    for start in range(0, N, BLOCK):
        n = start + tl.arange(0, BLOCK)
        total = tl.load(sum_ptr + row * N + n, mask=n < N).to(tl.float32)
        out = total * x_scale * tl.load(w_scale_ptr + n, mask=n < N)
        tl.store(out_ptr + row * N + n, out.to(out_ptr.dtype.element_ty), mask=n < N)


def valid(params, shape):
    """The pipelined tiles fit in shared memory, sums in registers; parts have a block of K."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    fits = params["num_stages"] * (m + n) * k <= 227 * 1024
    enough = shape["K"] >= params["SPLIT"] * k
    return enough and fits and 4 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, x_scale, w_scale, dtype, *, SPLIT=2, BLOCK_M=64, BLOCK_N=64, BLOCK_K=128,
    num_warps=4, num_stages=3,
):  # fmt: skip
    (M, K), N = x.shape, w.shape[0]
    total = torch.zeros((M, N), dtype=torch.int32, device=x.device)
    out = torch.empty((M, N), dtype=dtype, device=x.device)
    length = triton.cdiv(triton.cdiv(K, BLOCK_K), SPLIT) * BLOCK_K
    int_atomic_kernel[(triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M), SPLIT)](
        x, w, total, M, N, K, length, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    dequantise_kernel[(M,)](total, x_scale, w_scale, out, N, 512)
    return out
