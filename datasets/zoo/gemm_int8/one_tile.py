"""One output tile a program, addresses from scratch at each step, scales at the end."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_int8.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4, 5],
}


@triton.jit
def int8_kernel(
    x_ptr, w_ptr, x_scale_ptr, w_scale_ptr, out_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for k0 in range(0, K, BLOCK_K):
        inside = k0 + k < K
        x_ptrs = x_ptr + m[:, None] * K + (k0 + k)[None, :]
        w_ptrs = w_ptr + n[None, :] * K + (k0 + k)[:, None]
        x = tl.load(x_ptrs, mask=(m[:, None] < M) & inside[None, :], other=0)
        w = tl.load(w_ptrs, mask=(n[None, :] < N) & inside[:, None], other=0)
        acc = tl.dot(x, w, acc, out_dtype=tl.int32)
    x_scale = tl.load(x_scale_ptr + m, mask=m < M, other=0.0)
    w_scale = tl.load(w_scale_ptr + n, mask=n < N, other=0.0)
    out = acc.to(tl.float32) * x_scale[:, None] * w_scale[None, :]
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], out.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """The pipelined tiles fit in shared memory (227 KiB), the accumulator in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k
    return shared <= 227 * 1024 and 4 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, x_scale, w_scale, dtype, *, BLOCK_M=64, BLOCK_N=128, BLOCK_K=128,
    num_warps=4, num_stages=3,
):  # fmt: skip
    (M, K), N = x.shape, w.shape[0]
    out = torch.empty((M, N), dtype=dtype, device=x.device)
    int8_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](
        x, w, x_scale, w_scale, out, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
