"""K split among programs; the one that finishes a tile last adds the others' parts to its own."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_skinny.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SPLIT_K": [2, 3, 4, 8],
    "BLOCK_N": [16, 32, 64],
    "BLOCK_K": [64, 128, 256],
    "num_warps": [2, 4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def counted_kernel(
    x_ptr, w_ptr, part_ptr, count_ptr, out_ptr, M, N, K, SPLIT_K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    split = tl.program_id(1)
    m = tl.arange(0, BLOCK_M)[:, None]
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    length = tl.cdiv(tl.cdiv(K, BLOCK_K), SPLIT_K) * BLOCK_K
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(split * length, min((split + 1) * length, K), BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + m * K + k[None, :], mask=(m < M) & (k[None, :] < K), other=0.0)
        w_mask = (n[None, :] < N) & (k[:, None] < K)
        w = tl.load(w_ptr + n[None, :] * K + k[:, None], mask=w_mask, other=0.0)
        acc = tl.dot(x, w, acc)
    inside = (m < M) & (n[None, :] < N)
    at = m * N + n[None, :]
    tl.store(part_ptr + split * M * N + at, acc, mask=inside)
    tl.debug_barrier()  # all threads have stored before one of them counts
    before = tl.atomic_add(count_ptr + tl.program_id(0), 1)
    if before == SPLIT_K - 1:
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for part in tl.static_range(SPLIT_K):  # in order, so that the sum is always the same
            ptrs = part_ptr + part * M * N + at
            total += tl.load(ptrs, mask=inside, other=0.0, cache_modifier=".cg")
        tl.store(out_ptr + at, total.to(out_ptr.dtype.element_ty), mask=inside)


def rows(M):
    """M with the padding that the tensor cores ask for."""
    return max(16, triton.next_power_of_2(M))


def valid(params, shape):
    """Tiles fit in shared memory, each part has a block of K, one to 64 sums a thread."""
    m, n, k = rows(shape["M"]), params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    fits = shared <= 227 * 1024 and params["SPLIT_K"] * k <= shape["K"]
    return fits and 1 <= m * n / (32 * params["num_warps"]) <= 64


def kernel(x, w, *, SPLIT_K=4, BLOCK_N=32, BLOCK_K=128, num_warps=4, num_stages=3):
    (M, K), N = x.shape, w.shape[0]
    tiles = triton.cdiv(N, BLOCK_N)
    parts = torch.empty((SPLIT_K, M, N), dtype=torch.float32, device=x.device)
    counts = torch.zeros(tiles, dtype=torch.int32, device=x.device)
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    counted_kernel[(tiles, SPLIT_K)](
        x, w, parts, counts, out, M, N, K, SPLIT_K, rows(M), BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
