"""A matrix times vector for each row of x by itself; w comes again and again, from L2 at best."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_skinny.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_N": [1, 2, 4, 8, 16, 32],
    "BLOCK_K": [64, 128, 256, 512, 1024],
    "ROWS_TOGETHER": [False, True],  # programs of one tile of w follow each other
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def row_by_row_kernel(
    x_ptr, w_ptr, out_ptr, N, K,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, ROWS_TOGETHER: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0 if ROWS_TOGETHER else 1)
    n = tl.program_id(1 if ROWS_TOGETHER else 0) * BLOCK_N + tl.arange(0, BLOCK_N)
    partial = tl.zeros((BLOCK_N, BLOCK_K), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + row * K + k, mask=k < K, other=0.0)
        inside = (n[:, None] < N) & (k[None, :] < K)
        w = tl.load(w_ptr + n[:, None] * K + k[None, :], mask=inside, other=0.0)
        partial += w.to(tl.float32) * x.to(tl.float32)[None, :]
    out = tl.sum(partial, axis=1)
    tl.store(out_ptr + row * N + n, out.to(out_ptr.dtype.element_ty), mask=n < N)


def valid(params, shape):
    """Two to 64 sums a thread; what is read again stays under 4 GiB."""
    again = shape["M"] * shape["N"] * shape["K"] * 2 <= 2**32
    return again and 2 <= params["BLOCK_N"] * params["BLOCK_K"] / (32 * params["num_warps"]) <= 64


def kernel(x, w, *, BLOCK_N=4, BLOCK_K=512, ROWS_TOGETHER=True, num_warps=4):
    (M, K), N = x.shape, w.shape[0]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    tiles = triton.cdiv(N, BLOCK_N)
    row_by_row_kernel[(M, tiles) if ROWS_TOGETHER else (tiles, M)](
        x, w, out, N, K, BLOCK_N, BLOCK_K, ROWS_TOGETHER, num_warps=num_warps
    )
    return out
