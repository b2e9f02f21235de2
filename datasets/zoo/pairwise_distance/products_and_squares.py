"""|x|² + |y|² - 2 x·y with the products on the tensor cores; the squares are added on the way.

float32 inputs take three TF32 products, so that little is lost in the difference.
"""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.pairwise_distance.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [16, 32, 64, 128],
    "BLOCK_D": [16, 32, 64],
    "GROUP": [1, 8],
    "num_warps": [2, 4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def product_kernel(
    x_ptr, y_ptr, out_ptr, M, N, D,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first = tl.program_id(0) // (GROUP * tiles_n) * GROUP
    high = min(tiles_m - first, GROUP)
    within = tl.program_id(0) % (GROUP * tiles_n)
    m = (first + within % high) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = within // high * BLOCK_N + tl.arange(0, BLOCK_N)
    d = tl.arange(0, BLOCK_D)
    products = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    x_squares = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)
    y_squares = tl.zeros((BLOCK_D, BLOCK_N), dtype=tl.float32)
    for start in range(0, D, BLOCK_D):
        left = (m[:, None] < M) & (start + d[None, :] < D)
        right = (n[None, :] < N) & (start + d[:, None] < D)
        x = tl.load(x_ptr + m[:, None] * D + start + d[None, :], mask=left, other=0.0)
        y = tl.load(y_ptr + n[None, :] * D + start + d[:, None], mask=right, other=0.0)
        products = tl.dot(x, y, products, input_precision="tf32x3")
        x_squares += x.to(tl.float32) * x.to(tl.float32)
        y_squares += y.to(tl.float32) * y.to(tl.float32)
    squares = tl.sum(x_squares, axis=1)[:, None] + tl.sum(y_squares, axis=0)[None, :]
    out = tl.maximum(squares - 2.0 * products, 0.0)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], out, mask=inside)


def valid(params, shape):
    """Four to 64 accumulators a thread (16 beside the parts of float32), operands that fit."""
    m, n, d = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_D"]
    single = shape["dtype"] in ("float32", torch.float32)
    operands = (m + n) * d / (32 * params["num_warps"])
    fits = d < 2 * max(shape["D"], 16) and n < 2 * shape["N"] and operands <= 64
    return fits and 4 <= m * n / (32 * params["num_warps"]) <= (16 if single else 64)


def kernel(
    x, y, *, BLOCK_M=32, BLOCK_N=64, BLOCK_D=16, GROUP=8, num_warps=4, num_stages=2
):  # fmt: skip
    M, D = x.shape
    N = y.shape[0]
    out = torch.empty((M, N), dtype=torch.float32, device=x.device)
    grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)
    product_kernel[grid](
        x, y, out, M, N, D, BLOCK_M, BLOCK_N, BLOCK_D, GROUP,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
