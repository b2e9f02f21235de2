"""A grid of tile column × group; a program goes down all rows of its group, weights in cache."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_grouped.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [16, 32, 64, 128],
    "BLOCK_K": [32, 64, 128],
    "SLICES": [1, 4, 16],  # programs that share the rows of a group
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def column_kernel(
    x_ptr, w_ptr, offsets_ptr, out_ptr, N, K, SLICES: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(2)
    begin, end = tl.load(offsets_ptr + group), tl.load(offsets_ptr + group + 1)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    w_ptr += group.to(tl.int64) * K * N
    for m0 in range(begin + tl.program_id(0) * BLOCK_M, end, SLICES * BLOCK_M):
        m = m0 + tl.arange(0, BLOCK_M)[:, None]
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(tl.cdiv(K, BLOCK_K)):
            k = step * BLOCK_K + tl.arange(0, BLOCK_K)
            x_mask = (m < end) & (k[None, :] < K)
            w_mask = (k[:, None] < K) & (n < N)
            x = tl.load(x_ptr + m * K + k[None, :], mask=x_mask, other=0.0)
            w = tl.load(w_ptr + k[:, None] * N + n, mask=w_mask, other=0.0)
            acc = tl.dot(x, w, acc)
        out = acc.to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + m * N + n, out, mask=(m < end) & (n < N))


def valid(params, shape):
    """Tiles fit in shared memory, sums in registers; slices are no more than groups have tiles."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    needed = params["SLICES"] == 1 or params["SLICES"] * m <= 4 * shape["T"] / shape["G"]
    return needed and shared <= 227 * 1024 and 4 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, offsets, sizes, *, BLOCK_M=64, BLOCK_N=64, BLOCK_K=64, SLICES=1,
    num_warps=4, num_stages=3,
):  # fmt: skip
    (T, K), (G, _, N) = x.shape, w.shape
    out = torch.empty((T, N), dtype=x.dtype, device=x.device)
    column_kernel[(SLICES, triton.cdiv(N, BLOCK_N), G)](
        x, w, offsets, out, N, K, SLICES, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
