"""Two kernels: a plain product that starts from the bias, then an elementwise pass over it."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_epilogue.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [64, 128],
    "BLOCK_K": [32, 64],
    "EPILOGUE_BLOCK": [512, 1024, 4096],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def linear_kernel(
    x, w, bias, y, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    # Out of bounds the first row or column is read: what comes of it is not stored.
    safe_rows = tl.where(rows < M, rows, 0)
    safe_cols = tl.where(cols < N, cols, 0)
    acc = tl.zeros((BM, BN), tl.float32) + tl.load(bias + safe_cols).to(tl.float32)[None, :]
    for step in range(tl.cdiv(K, BK)):
        k = step * BK + tl.arange(0, BK)
        a = tl.load(x + safe_rows[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)
        b = tl.load(w + safe_cols[None, :] * K + k[:, None], mask=k[:, None] < K, other=0.0)
        acc += tl.dot(a, b)
    inside = (rows < M)[:, None] & (cols < N)[None, :]
    tl.store(y + rows[:, None] * N + cols[None, :], acc.to(y.dtype.element_ty), mask=inside)


@triton.jit
def activation_kernel(y, residual, size, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    h = tl.load(y + at, mask=at < size).to(tl.float32)
    if ACTIVATION == "relu":
        h = tl.where(h > 0, h, 0.0)
    elif ACTIVATION == "silu":
        h = h / (1 + tl.exp(-h))
    else:
        inner = 0.7978845608028654 * h * (1 + 0.044715 * h * h)
        tanh = 1 - 2 / (tl.exp(2 * inner) + 1)
        h = 0.5 * h * (1 + tanh)
    h += tl.load(residual + at, mask=at < size).to(tl.float32)
    tl.store(y + at, h.to(y.dtype.element_ty), mask=at < size)


def valid(params, shape):
    """The pipelined tiles fit in shared memory (227 KiB), the accumulator in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    return shared <= 227 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, bias, residual, activation, *, BLOCK_M=64, BLOCK_N=128, BLOCK_K=32,
    EPILOGUE_BLOCK=1024, num_warps=4, num_stages=3,
):  # fmt: skip
    (M, K), N = x.shape, w.shape[0]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    linear_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](
        x, w, bias, out, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    activation_kernel[(triton.cdiv(M * N, EPILOGUE_BLOCK),)](
        out, residual, M * N, activation, EPILOGUE_BLOCK
    )
    return out
