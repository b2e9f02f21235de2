"""Tiles of M x N x D differences at once, summed over D: points by points by coordinates."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.pairwise_distance.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [1, 2, 4, 8, 16, 32],
    "BLOCK_N": [4, 8, 16, 32, 64, 128],
    "BLOCK_D": [4, 8, 16, 32],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def cube_kernel(
    x_ptr, y_ptr, out_ptr, M, N, D,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    m0, n0 = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    m = m0 + tl.arange(0, BLOCK_M)[:, None, None]
    n = n0 + tl.arange(0, BLOCK_N)[None, :, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N, BLOCK_D), dtype=tl.float32)
    for start in range(0, D, BLOCK_D):
        d = start + tl.arange(0, BLOCK_D)[None, None, :]
        x = tl.load(x_ptr + m * D + d, mask=(m < M) & (d < D), other=0.0).to(tl.float32)
        y = tl.load(y_ptr + n * D + d, mask=(n < N) & (d < D), other=0.0).to(tl.float32)
        acc += (x - y) * (x - y)
    rows = m0 + tl.arange(0, BLOCK_M)[:, None]
    cols = n0 + tl.arange(0, BLOCK_N)[None, :]
    inside = (rows < M) & (cols < N)
    tl.store(out_ptr + rows * N + cols, tl.sum(acc, axis=2), mask=inside)


def valid(params, shape):
    """One to 64 differences a thread; under 3e9 in all; blocks not far larger than needed."""
    m, n, d = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_D"]
    fits = d < 2 * max(shape["D"], 4) and n < 2 * shape["N"] and triton.cdiv(shape["N"], n) < 65536
    fits = fits and shape["M"] * shape["N"] * shape["D"] < 3e9
    return fits and 1 <= m * n * d / (32 * params["num_warps"]) <= 64


def kernel(x, y, *, BLOCK_M=8, BLOCK_N=32, BLOCK_D=4, num_warps=4):
    M, D = x.shape
    N = y.shape[0]
    out = torch.empty((M, N), dtype=torch.float32, device=x.device)
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    cube_kernel[grid](x, y, out, M, N, D, BLOCK_M, BLOCK_N, BLOCK_D, num_warps=num_warps)
    return out
