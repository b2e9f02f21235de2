"""Unfused: both products in one launch into a workspace, then an elementwise pass."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gated_mlp.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [32, 64],
    "COLUMNS": [512, 2048],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def products_kernel(
    x_ptr, gate_ptr, up_ptr, both_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    which = tl.program_id(2)
    w_ptr = gate_ptr if which == 0 else up_ptr
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + m[:, None] * K + k[None, :]
    w_ptrs = w_ptr + k[:, None] * N + n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        x = tl.load(x_ptrs, mask=(m[:, None] < M) & (k[None, :] < K - k0), other=0.0)
        w = tl.load(w_ptrs, mask=(k[:, None] < K - k0) & (n[None, :] < N), other=0.0)
        acc += tl.dot(x, w)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K * N
    inside = (m[:, None] < M) & (n[None, :] < N)
    both_ptrs = both_ptr + m[:, None] * (2 * N) + which * N + n[None, :]
    tl.store(both_ptrs, acc.to(both_ptr.dtype.element_ty), mask=inside)


@triton.jit
def gate_kernel(both_ptr, out_ptr, N, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    n = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    gated = tl.load(both_ptr + row * 2 * N + n, mask=n < N).to(tl.float32)
    linear = tl.load(both_ptr + row * 2 * N + N + n, mask=n < N).to(tl.float32)
    out = gated * tl.sigmoid(gated) * linear
    tl.store(out_ptr + row * N + n, out.to(out_ptr.dtype.element_ty), mask=n < N)


def valid(params, shape):
    """The pipelined tiles fit in shared memory (227 KiB), the accumulator in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    return shared <= 227 * 1024 and 4 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, gate, up, *, BLOCK_M=64, BLOCK_N=128, BLOCK_K=32, COLUMNS=512, num_warps=4, num_stages=3
):  # fmt: skip
    (M, K), N = x.shape, gate.shape[1]
    both = torch.empty((M, 2 * N), dtype=x.dtype, device=x.device)
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    products_kernel[(triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M), 2)](
        x, gate, up, both, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    gate_kernel[(M, triton.cdiv(N, COLUMNS))](both, out, N, COLUMNS)
    return out
