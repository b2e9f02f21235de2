"""K split among programs, interleaved, whose sums meet in fp32 through atomic additions."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SPLIT": [1, 2, 4, 8, 16],
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [64, 128],
    "BLOCK_K": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def atomic_kernel(
    x_ptr, w_ptr, sum_ptr, M, N, K, SPLIT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    columns = tl.cdiv(N, BLOCK_N)
    tile, part = tl.program_id(0) // SPLIT, tl.program_id(0) % SPLIT
    m = tile // columns * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile % columns * BLOCK_N + tl.arange(0, BLOCK_N)
    k = part * BLOCK_K + tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + m[:, None] * K + k[None, :]
    w_ptrs = w_ptr + k[:, None] * N + n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    # Part p takes blocks p, p + SPLIT, … of K: all parts stream through neighbouring memory.
    for k0 in range(0, K - part * BLOCK_K, SPLIT * BLOCK_K):
        left = K - k0
        x = tl.load(x_ptrs, mask=(m[:, None] < M) & (k[None, :] < left), other=0.0)
        w = tl.load(w_ptrs, mask=(k[:, None] < left) & (n[None, :] < N), other=0.0)
        acc = tl.dot(x, w, acc)
        x_ptrs += SPLIT * BLOCK_K
        w_ptrs += SPLIT * BLOCK_K * N
    sum_ptrs = sum_ptr + m[:, None] * N + n[None, :]
    tl.atomic_add(sum_ptrs, acc, mask=(m[:, None] < M) & (n[None, :] < N), sem="relaxed")


@triton.jit
def round_kernel(sum_ptr, out_ptr, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(sum_ptr + at, mask=at < size)
    tl.store(out_ptr + at, total.to(out_ptr.dtype.element_ty), mask=at < size)


def valid(params, shape):
    """Tiles fit in shared memory, the accumulator in registers; each part has a block of K."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    fits = shared <= 227 * 1024 and shape["K"] >= k * params["SPLIT"]
    return fits and 4 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(x, w, *, SPLIT=2, BLOCK_M=64, BLOCK_N=128, BLOCK_K=64, num_warps=4, num_stages=3):
    (M, K), N = x.shape, w.shape[1]
    total = torch.zeros((M, N), dtype=torch.float32, device=x.device)
    atomic_kernel[(triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N) * SPLIT,)](
        x, w, total, M, N, K, SPLIT, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    if x.dtype == torch.float32:
        return total
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    round_kernel[(triton.cdiv(M * N, 1024),)](total, out, M * N, 1024)
    return out
