"""Persistent programs walk over the tiles of all batch entries, each a stretch of neighbours."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_batched.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PER_SM": [1, 2, 4],
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64],
    "num_warps": [2, 4, 8],
    "num_stages": [2, 3],
}
SMS = 132  # of an H100 SXM or H200


@triton.jit
def stretch_kernel(
    x_ptr, y_ptr, out_ptr, TILES, M, N, K, STRETCH,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    columns = tl.cdiv(N, BLOCK_N)
    per_entry = tl.cdiv(M, BLOCK_M) * columns
    first = tl.program_id(0) * STRETCH
    for tile in range(first, min(first + STRETCH, TILES)):
        entry, within = tile // per_entry, tile % per_entry
        m = within // columns * BLOCK_M + tl.arange(0, BLOCK_M)
        n = within % columns * BLOCK_N + tl.arange(0, BLOCK_N)
        x_base, y_base = x_ptr + entry * M * K, y_ptr + entry * K * N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k0 in range(0, K, BLOCK_K):
            k = k0 + tl.arange(0, BLOCK_K)
            x_mask = (m[:, None] < M) & (k[None, :] < K)
            y_mask = (k[:, None] < K) & (n[None, :] < N)
            x = tl.load(x_base + m[:, None] * K + k[None, :], mask=x_mask, other=0.0)
            y = tl.load(y_base + k[:, None] * N + n[None, :], mask=y_mask, other=0.0)
            acc = tl.dot(x, y, acc)
        out_ptrs = out_ptr + entry * M * N + m[:, None] * N + n[None, :]
        inside = (m[:, None] < M) & (n[None, :] < N)
        tl.store(out_ptrs, acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """All programs on an SM fit in its shared memory; four to 128 sums a thread."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape) * params["PER_SM"]
    near = m < 4 * shape["M"] and n < 4 * shape["N"]
    return near and shared <= 227 * 1024 and 4 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(x, y, *, PER_SM=2, BLOCK_M=32, BLOCK_N=64, BLOCK_K=32, num_warps=4, num_stages=3):
    (B, M, K), N = x.shape, y.shape[2]
    out = torch.empty((B, M, N), dtype=x.dtype, device=x.device)
    tiles = B * triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    stretch = triton.cdiv(tiles, SMS * PER_SM)
    stretch_kernel[(triton.cdiv(tiles, stretch),)](
        x, y, out, tiles, M, N, K, stretch, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
