"""The transposed product, rows of w first, so that few rows of x make a narrow tile."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_fp8.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS_OF_W": [64, 128, 256],
    "ROWS_OF_X": [16, 32, 64, 128],
    "BLOCK_K": [64, 128],
    "X_FIRST": [False, True],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def swapped_kernel(
    x_ptr, w_ptr, x_scale_ptr, w_scale_ptr, out_ptr, M, N, K, X_FIRST: tl.constexpr,
    ROWS_OF_W: tl.constexpr, ROWS_OF_X: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    if X_FIRST:
        i, j = tl.program_id(0) % tl.cdiv(M, ROWS_OF_X), tl.program_id(0) // tl.cdiv(M, ROWS_OF_X)
    else:
        i, j = tl.program_id(0) // tl.cdiv(N, ROWS_OF_W), tl.program_id(0) % tl.cdiv(N, ROWS_OF_W)
    m = i * ROWS_OF_X + tl.arange(0, ROWS_OF_X)
    n = j * ROWS_OF_W + tl.arange(0, ROWS_OF_W)
    # Rows past the end read the last one again; their results are not stored.
    x_rows = x_ptr + tl.minimum(m, M - 1)[None, :] * K
    w_rows = w_ptr + tl.minimum(n, N - 1)[:, None] * K
    acc = tl.zeros((ROWS_OF_W, ROWS_OF_X), dtype=tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        k = step * BLOCK_K + tl.arange(0, BLOCK_K)
        w = tl.load(w_rows + k[None, :], mask=k[None, :] < K, other=0.0)
        x = tl.load(x_rows + k[:, None], mask=k[:, None] < K, other=0.0)
        acc = tl.dot(w, x, acc)
    acc *= tl.load(w_scale_ptr + n, mask=n < N, other=0.0)[:, None]
    acc *= tl.load(x_scale_ptr + m, mask=m < M, other=0.0)[None, :]
    out_ptrs = out_ptr + m[None, :] * N + n[:, None]
    inside = (m[None, :] < M) & (n[:, None] < N)
    tl.store(out_ptrs, acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Tiles fit in shared memory, sums in registers; rows of x not far beyond those there are."""
    m, n, k = params["ROWS_OF_X"], params["ROWS_OF_W"], params["BLOCK_K"]
    near = m < 2 * max(16, shape["M"])
    fits = params["num_stages"] * (m + n) * k <= 227 * 1024
    return near and fits and 8 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, x_scale, w_scale, dtype, *, ROWS_OF_W=64, ROWS_OF_X=16, BLOCK_K=128, X_FIRST=True,
    num_warps=4, num_stages=4,
):  # fmt: skip
    (M, K), N = x.shape, w.shape[0]
    out = torch.empty((M, N), dtype=dtype, device=x.device)
    swapped_kernel[(triton.cdiv(M, ROWS_OF_X) * triton.cdiv(N, ROWS_OF_W),)](
        x, w, x_scale, w_scale, out, M, N, K, X_FIRST, ROWS_OF_W, ROWS_OF_X, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
