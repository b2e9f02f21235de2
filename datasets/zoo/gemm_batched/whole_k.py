"""Several batch entries a program in turn, all of K in one tile: no inner loop."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_batched.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ENTRIES": [1, 2, 4, 8],
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [16, 32, 64, 128],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def whole_k_kernel(
    x_ptr, y_ptr, out_ptr, B, M, N, K, ENTRIES: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, WHOLE_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = tl.program_id(2) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    k = tl.arange(0, WHOLE_K)
    first = tl.program_id(0) * ENTRIES
    for entry in range(first, min(first + ENTRIES, B)):
        x_mask = (m < M) & (k[None, :] < K)
        y_mask = (k[:, None] < K) & (n < N)
        x = tl.load(x_ptr + entry * M * K + m * K + k[None, :], mask=x_mask, other=0.0)
        y = tl.load(y_ptr + entry * K * N + k[:, None] * N + n, mask=y_mask, other=0.0)
        out = tl.dot(x, y).to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + entry * M * N + m * N + n, out, mask=(m < M) & (n < N))


def whole(K):
    """All of K as one side of a tile."""
    return max(16, triton.next_power_of_2(K))


def valid(params, shape):
    """The stages fit in shared memory; a thread holds at most 128 elements of a tile."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], whole(shape["K"])
    threads = 32 * params["num_warps"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    near = m < 4 * shape["M"] and n < 4 * shape["N"]
    fits = shared <= 227 * 1024 and max(m, n) * k / threads <= 128
    return near and fits and 2 <= m * n / threads <= 128


def kernel(x, y, *, ENTRIES=2, BLOCK_M=32, BLOCK_N=32, num_warps=4, num_stages=1):
    (B, M, K), N = x.shape, y.shape[2]
    out = torch.empty((B, M, N), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(B, ENTRIES), triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    whole_k_kernel[grid](
        x, y, out, B, M, N, K, ENTRIES, BLOCK_M, BLOCK_N, whole(K),
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
