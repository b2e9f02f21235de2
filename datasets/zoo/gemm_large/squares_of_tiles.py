"""Plain pointers; programs go through squares of SQUARE x SQUARE tiles, which stay in L2."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_large.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [128, 256],
    "BLOCK_K": [32, 64],
    "SQUARE": [2, 8, 16],
    "num_warps": [4, 8],
    "num_stages": [3, 4],
}


@triton.jit
def squares_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K, EVEN_K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, SQUARE: tl.constexpr,
):  # fmt: skip
    across = tl.cdiv(tl.cdiv(N, BLOCK_N), SQUARE)
    square, within = tl.program_id(0) // (SQUARE * SQUARE), tl.program_id(0) % (SQUARE * SQUARE)
    i = square // across * SQUARE + within // SQUARE
    j = square % across * SQUARE + within % SQUARE
    if (i * BLOCK_M >= M) | (j * BLOCK_N >= N):
        return
    # Rows past the end wrap around: their results are not stored.
    m, n = i * BLOCK_M + tl.arange(0, BLOCK_M), j * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + (m % M)[:, None] * K + k[None, :]
    w_ptrs = w_ptr + (n % N)[None, :] * K + k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        if EVEN_K:
            x, w = tl.load(x_ptrs), tl.load(w_ptrs)
        else:
            x = tl.load(x_ptrs, mask=k[None, :] < K - k0, other=0.0)
            w = tl.load(w_ptrs, mask=k[:, None] < K - k0, other=0.0)
        acc = tl.dot(x, w, acc)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
    at = m[:, None] * N + n[None, :]
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + at, acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """The pipelined tiles fit in shared memory (227 KiB), the accumulator in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * 2
    return shared <= 227 * 1024 and 32 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, *, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, SQUARE=8, num_warps=8, num_stages=3
):  # fmt: skip
    (M, K), N = x.shape, w.shape[0]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    squares = triton.cdiv(M, BLOCK_M * SQUARE) * triton.cdiv(N, BLOCK_N * SQUARE)
    squares_kernel[(squares * SQUARE * SQUARE,)](
        x, w, out, M, N, K, K % BLOCK_K == 0, BLOCK_M, BLOCK_N, BLOCK_K, SQUARE,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
