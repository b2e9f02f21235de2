"""A product for each of the 27 taps and block of channels; neighbours are found tap by tap."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.conv3d_implicit.problem import (
    SHAPES,
    TOLERANCE,
    inputs,
    itemsize,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_C": [16, 32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def taps_kernel(
    x_ptr, w_ptr, out_ptr, POINTS, D, H, W, C, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    column, row, plane = m % W, m // W % H, m // (W * H) % D
    steps = tl.cdiv(C, BLOCK_C)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(27 * steps):
        tap = step // steps
        c = step % steps * BLOCK_C + tl.arange(0, BLOCK_C)
        dz, dy, dx = tap // 9 - 1, tap // 3 % 3 - 1, tap % 3 - 1
        inside = (plane + dz >= 0) & (plane + dz < D) & (row + dy >= 0) & (row + dy < H)
        inside = inside & (column + dx >= 0) & (column + dx < W) & (m < POINTS)
        at = m + (dz * H + dy) * W + dx
        x_mask = inside[:, None] & (c[None, :] < C)
        w_mask = (c[:, None] < C) & (n[None, :] < K)
        x = tl.load(x_ptr + at[:, None] * C + c[None, :], mask=x_mask, other=0.0)
        w = tl.load(w_ptr + (tap * C + c[:, None]) * K + n[None, :], mask=w_mask, other=0.0)
        acc = tl.dot(x, w, acc)
    inside = (m[:, None] < POINTS) & (n[None, :] < K)
    tl.store(out_ptr + m[:, None] * K + n[None, :], acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Tiles fit in shared memory and are not far beyond the channels; the sum in registers."""
    m, n, c = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_C"]
    shared = params["num_stages"] * (m + n) * c * itemsize(shape)
    near = n < 2 * shape["K"] and c < 2 * shape["C"]
    return near and shared <= 220 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 64


def kernel(
    x, weight, *, BLOCK_M=64, BLOCK_N=32, BLOCK_C=16, num_warps=4, num_stages=3
):  # fmt: skip
    B, D, H, W, C = x.shape
    K, points = weight.shape[4], B * D * H * W
    out = torch.empty((B, D, H, W, K), dtype=x.dtype, device=x.device)
    taps_kernel[(triton.cdiv(points, BLOCK_M), triton.cdiv(K, BLOCK_N))](
        x, weight, out, points, D, H, W, C, K, BLOCK_M, BLOCK_N, BLOCK_C,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
