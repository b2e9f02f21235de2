"""A third of the taps a program, from one plane of the filter; sums are added atomically."""

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
    "BLOCK_C": [16, 32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def plane_kernel(
    x_ptr, w_ptr, sum_ptr, POINTS, D, H, W, C, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    dz = tl.program_id(2) - 1
    column, row, plane = m % W, m // W % H, m // (W * H) % D + dz
    there = (m < POINTS) & (plane >= 0) & (plane < D)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for tap in range(9):
        dy, dx = tap // 3 - 1, tap % 3 - 1
        inside = there & (row + dy >= 0) & (row + dy < H) & (column + dx >= 0) & (column + dx < W)
        x_ptrs = x_ptr + (m + (dz * H + dy) * W + dx)[:, None] * C
        w_ptrs = w_ptr + ((dz + 1) * 9 + tap) * C * K + n[None, :]
        for c0 in range(0, C, BLOCK_C):
            c = c0 + tl.arange(0, BLOCK_C)
            x_mask = inside[:, None] & (c[None, :] < C)
            w_mask = (c[:, None] < C) & (n[None, :] < K)
            x = tl.load(x_ptrs + c[None, :], mask=x_mask, other=0.0)
            acc = tl.dot(x, tl.load(w_ptrs + c[:, None] * K, mask=w_mask, other=0.0), acc)
    inside = (m[:, None] < POINTS) & (n[None, :] < K)
    tl.atomic_add(sum_ptr + m[:, None] * K + n[None, :], acc, mask=inside, sem="relaxed")


@triton.jit
def round_kernel(sum_ptr, out_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(sum_ptr + at, mask=at < N, other=0.0)
    tl.store(out_ptr + at, total.to(out_ptr.dtype.element_ty), mask=at < N)


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
    total = torch.zeros((B, D, H, W, K), dtype=torch.float32, device=x.device)
    plane_kernel[(triton.cdiv(points, BLOCK_M), triton.cdiv(K, BLOCK_N), 3)](
        x, weight, total, points, D, H, W, C, K, BLOCK_M, BLOCK_N, BLOCK_C,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    if x.dtype == torch.float32:
        return total
    out = torch.empty((B, D, H, W, K), dtype=x.dtype, device=x.device)
    round_kernel[(triton.cdiv(points * K, 1024),)](total, out, points * K, 1024)
    return out
