"""K is a constant: the compiler knows the loop, may unroll it, and gets hints on alignment."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [64, 128, 256],
    "BLOCK_K": [32, 64, 128],
    "UNROLL": [1, 2, 4],
    "num_warps": [4, 8],
    "num_stages": [1, 3, 4],
}


@triton.jit
def constant_k_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    # Indices wrap, so that no load needs a mask for rows or columns.
    rows = tl.max_contiguous(tl.multiple_of(m % M, BLOCK_M), BLOCK_M)
    columns = tl.max_contiguous(tl.multiple_of(n % N, BLOCK_N), BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in tl.range(0, K, BLOCK_K, loop_unroll_factor=UNROLL):
        k = k0 + tl.arange(0, BLOCK_K)
        x_ptrs = x_ptr + rows[:, None] * K + k[None, :]
        w_ptrs = w_ptr + k[:, None] * N + columns[None, :]
        if K % BLOCK_K == 0:
            acc = tl.dot(tl.load(x_ptrs), tl.load(w_ptrs), acc)
        else:
            x = tl.load(x_ptrs, mask=k[None, :] < K, other=0.0)
            acc = tl.dot(x, tl.load(w_ptrs, mask=k[:, None] < K, other=0.0), acc)
    out = acc.to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + m[:, None] * N + n[None, :], out, mask=(m[:, None] < M) & (n[None, :] < N))


def valid(params, shape):
    """Whole tiles, which the hints promise; tiles in shared memory, sums in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * params["UNROLL"] * (m + n) * k * itemsize(shape)
    whole = shape["M"] % m == 0 and shape["N"] % n == 0
    return whole and shared <= 227 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(x, w, *, BLOCK_M=64, BLOCK_N=128, BLOCK_K=32, UNROLL=2, num_warps=4, num_stages=3):
    (M, K), N = x.shape, w.shape[1]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    constant_k_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](
        x, w, out, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, UNROLL,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
