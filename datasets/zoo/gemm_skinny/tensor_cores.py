"""All rows in one tile of the tensor cores; each program streams some rows of w along K."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_skinny.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_N": [16, 32, 64, 128],
    "BLOCK_K": [64, 128, 256],
    "EVICT_FIRST": [False, True],
    "num_warps": [2, 4, 8],
    "num_stages": [2, 3, 4, 6],
}


@triton.jit
def skinny_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K, EVICT_FIRST: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + m[:, None] * K + k[None, :]
    w_ptrs = w_ptr + n[None, :] * K + k[:, None]
    policy: tl.constexpr = "evict_first" if EVICT_FIRST else ""
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        inside = k < K - k0
        x = tl.load(x_ptrs, mask=(m[:, None] < M) & inside[None, :], other=0.0)
        w_mask = (n[None, :] < N) & inside[:, None]
        w = tl.load(w_ptrs, mask=w_mask, other=0.0, eviction_policy=policy)
        acc = tl.dot(x, w, acc)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc.to(out_ptr.dtype.element_ty), mask=inside)


def padded(M):
    """Rows of a tile of the tensor cores that holds M."""
    return max(16, triton.next_power_of_2(M))


def valid(params, shape):
    """The pipelined tiles fit in shared memory, two to 64 sums a thread."""
    m, n, k = padded(shape["M"]), params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    return shared <= 227 * 1024 and 2 <= m * n / (32 * params["num_warps"]) <= 64


def kernel(x, w, *, BLOCK_N=32, BLOCK_K=128, EVICT_FIRST=True, num_warps=4, num_stages=3):
    (M, K), N = x.shape, w.shape[0]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    skinny_kernel[(triton.cdiv(N, BLOCK_N),)](
        x, w, out, M, N, K, EVICT_FIRST, padded(M), BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
