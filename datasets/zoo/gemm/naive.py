"""A first kernel: a 2-D grid of tiles, all strides passed, every address and mask made anew."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "TILE_M": [32, 64, 128],
    "TILE_N": [32, 64, 128],
    "TILE_K": [16, 32, 64],
    "ROWS_FIRST": [False, True],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def naive_kernel(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, ROWS_FIRST: tl.constexpr,
):  # fmt: skip
    if ROWS_FIRST:
        row, col = tl.program_id(1), tl.program_id(0)
    else:
        row, col = tl.program_id(0), tl.program_id(1)
    rows = row * TILE_M + tl.arange(0, TILE_M)[:, None]
    cols = col * TILE_N + tl.arange(0, TILE_N)[None, :]
    total = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for step in range(tl.cdiv(K, TILE_K)):
        inner = step * TILE_K + tl.arange(0, TILE_K)
        a_mask = (rows < M) & (inner[None, :] < K)
        b_mask = (inner[:, None] < K) & (cols < N)
        left = tl.load(a + rows * stride_am + inner[None, :] * stride_ak, mask=a_mask, other=0.0)
        right = tl.load(b + inner[:, None] * stride_bk + cols * stride_bn, mask=b_mask, other=0.0)
        total += tl.dot(left, right)
    result = total.to(c.dtype.element_ty)
    tl.store(c + rows * stride_cm + cols * stride_cn, result, mask=(rows < M) & (cols < N))


def valid(params, shape):
    """The tiles fit in shared memory; 8 to 128 sums a thread."""
    m, n, k = params["TILE_M"], params["TILE_N"], params["TILE_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    return shared <= 227 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, *, TILE_M=64, TILE_N=64, TILE_K=32, ROWS_FIRST=False, num_warps=4, num_stages=2
):  # fmt: skip
    (M, K), N = x.shape, w.shape[1]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, TILE_M), triton.cdiv(N, TILE_N))
    naive_kernel[grid[::-1] if ROWS_FIRST else grid](
        x, w, out, M, N, K, *x.stride(), *w.stride(), *out.stride(), TILE_M, TILE_N, TILE_K,
        ROWS_FIRST, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
