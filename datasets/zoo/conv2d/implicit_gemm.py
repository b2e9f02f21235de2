"""A matrix product that gathers its left tile from the image, tap by tap, channels in chunks."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.conv2d.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_C": [16, 32, 64],
    "GROUP": [1, 8],
    "num_warps": [2, 4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def gathering_kernel(
    x_ptr, weight_ptr, out_ptr, H, W, C, K, P, Q, pixels, STRIDE,
    R: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(pixels, BLOCK_M), tl.cdiv(K, BLOCK_N)
    tile = tl.program_id(0)
    first = tile // (GROUP * tiles_n) * GROUP
    high = min(tiles_m - first, GROUP)
    m = (first + tile % (GROUP * tiles_n) % high) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile % (GROUP * tiles_n) // high * BLOCK_N + tl.arange(0, BLOCK_N)
    image, row, col = m // (P * Q), m // Q % P * STRIDE - R // 2, m % Q * STRIDE - R // 2
    chunks = tl.cdiv(C, BLOCK_C)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(R * R * chunks):
        tap = step // chunks
        c = step % chunks * BLOCK_C + tl.arange(0, BLOCK_C)
        y, z = row + tap // R, col + tap % R
        there = (m < pixels) & (y >= 0) & (y < H) & (z >= 0) & (z < W)
        places = ((image * H + y) * W + z) * C
        x_mask = there[:, None] & (c[None, :] < C)
        x = tl.load(x_ptr + places[:, None] + c[None, :], mask=x_mask, other=0.0)
        w_at = n[None, :] * (R * R * C) + tap * C + c[:, None]
        w_mask = (n[None, :] < K) & (c[:, None] < C)
        w = tl.load(weight_ptr + w_at, mask=w_mask, other=0.0)
        acc = tl.dot(x, w, acc)
    out_mask = (m[:, None] < pixels) & (n[None, :] < K)
    out = out_ptr + m[:, None] * K + n[None, :]
    tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=out_mask)


def valid(params, shape):
    """Tiles fit in shared memory, accumulators in registers; chunks not far wider than C."""
    m, n, c = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_C"]
    size = 4 if shape["dtype"] in ("float32", torch.float32) else 2
    shared = params["num_stages"] * (m + n) * c * size
    fits = shared <= 220 * 1024 and c < 2 * max(shape["C"], 16) and n < 2 * shape["K"]
    return fits and 8 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, weight, stride, *,
    BLOCK_M=64, BLOCK_N=64, BLOCK_C=16, GROUP=8, num_warps=4, num_stages=3,
):  # fmt: skip
    B, H, W, C = x.shape
    K, R = weight.shape[:2]
    P, Q = (H - 1) // stride + 1, (W - 1) // stride + 1
    out = torch.empty((B, P, Q, K), dtype=x.dtype, device=x.device)
    pixels = B * P * Q
    grid = (triton.cdiv(pixels, BLOCK_M) * triton.cdiv(K, BLOCK_N),)
    gathering_kernel[grid](
        x, weight, out, H, W, C, K, P, Q, pixels, stride, R, BLOCK_M, BLOCK_N, BLOCK_C, GROUP,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
