"""Taps and channels as one long dimension of a product, in blocks that may span two taps."""

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
    "BLOCK_M": [64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64],
    "GROUP_M": [1, 8],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def long_kernel(
    x_ptr, w_ptr, out_ptr, POINTS, D, H, W, C, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    high, wide = tl.cdiv(POINTS, BLOCK_M), tl.cdiv(K, BLOCK_N)
    i, j = tl.swizzle2d(tl.program_id(0) // wide, tl.program_id(0) % wide, high, wide, GROUP_M)
    m, n = i * BLOCK_M + tl.arange(0, BLOCK_M), j * BLOCK_N + tl.arange(0, BLOCK_N)
    column, row, plane = m % W, m // W % H, m // (W * H) % D
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, 27 * C, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        tap, c = k // C, k % C
        dz, dy, dx = tap // 9 - 1, tap // 3 % 3 - 1, tap % 3 - 1
        z, y = plane[:, None] + dz[None, :], row[:, None] + dy[None, :]
        x_place = column[:, None] + dx[None, :]
        inside = (z >= 0) & (z < D) & (y >= 0) & (y < H) & (x_place >= 0) & (x_place < W)
        inside = inside & (m[:, None] < POINTS) & (k[None, :] < 27 * C)
        shift = ((dz * H + dy) * W + dx) * C + c
        x = tl.load(x_ptr + m[:, None] * C + shift[None, :], mask=inside, other=0.0)
        w_mask = (k[:, None] < 27 * C) & (n[None, :] < K)
        w = tl.load(w_ptr + k[:, None] * K + n[None, :], mask=w_mask, other=0.0)
        acc = tl.dot(x, w, acc)
    inside = (m[:, None] < POINTS) & (n[None, :] < K)
    tl.store(out_ptr + m[:, None] * K + n[None, :], acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Tiles fit in shared memory and are not far beyond the channels; the sum in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    near = n < 2 * shape["K"]
    return near and shared <= 220 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 64


def kernel(
    x, weight, *, BLOCK_M=64, BLOCK_N=32, BLOCK_K=32, GROUP_M=8, num_warps=4, num_stages=3
):  # fmt: skip
    B, D, H, W, C = x.shape
    K, points = weight.shape[4], B * D * H * W
    out = torch.empty((B, D, H, W, K), dtype=x.dtype, device=x.device)
    long_kernel[(triton.cdiv(points, BLOCK_M) * triton.cdiv(K, BLOCK_N),)](
        x, weight, out, points, D, H, W, C, K, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
