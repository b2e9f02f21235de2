"""An implicit product over one flat axis of taps and channels, split up by division each step.

With few channels, as in a first layer, no part of a step is wasted. SPLITS > 1 shares the axis
among programs, whose float32 partial results are added by atomics and rounded afterwards.
"""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.conv2d.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [16, 32, 64],
    "SPLITS": [1, 2, 4],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def flat_kernel(
    x_ptr, weight_ptr, out_ptr, H, W, C, K, P, Q, pixels, STRIDE, LENGTH,
    R: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    ATOMIC: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = R * R * C
    image, row, col = m // (P * Q), m // Q % P * STRIDE - R // 2, m % Q * STRIDE - R // 2
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    begin = tl.program_id(2) * LENGTH
    for start in range(begin, min(begin + LENGTH, total), BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        tap, c = k // C, k % C
        y, z = row[:, None] + (tap // R)[None, :], col[:, None] + (tap % R)[None, :]
        there = (y >= 0) & (y < H) & (z >= 0) & (z < W)
        there = there & (m[:, None] < pixels) & (k[None, :] < total)
        at = ((image[:, None] * H + y) * W + z) * C + c[None, :]
        x = tl.load(x_ptr + at, mask=there, other=0.0)
        w_mask = (n[None, :] < K) & (k[:, None] < total)
        w = tl.load(weight_ptr + n[None, :] * total + k[:, None], mask=w_mask, other=0.0)
        acc += tl.dot(x, w)
    mask = (m[:, None] < pixels) & (n[None, :] < K)
    out = out_ptr + m[:, None] * K + n[None, :]
    if ATOMIC:
        tl.atomic_add(out, acc, mask=mask, sem="relaxed")
    else:
        tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=mask)


def valid(params, shape):
    """Tiles fit in shared memory, accumulators in registers; parts of at least two steps."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    size = 4 if shape["dtype"] in ("float32", torch.float32) else 2
    shared = params["num_stages"] * (m + n) * k * size
    part = shape["R"] ** 2 * shape["C"] // params["SPLITS"]
    fits = shared <= 220 * 1024 and part >= 2 * k and n < 2 * shape["K"]
    return fits and 8 <= m * n / (32 * params["num_warps"]) <= 64


def kernel(
    x, weight, stride, *,
    BLOCK_M=64, BLOCK_N=32, BLOCK_K=32, SPLITS=1, num_warps=4, num_stages=2,
):  # fmt: skip
    B, H, W, C = x.shape
    K, R = weight.shape[:2]
    P, Q = (H - 1) // stride + 1, (W - 1) // stride + 1
    whole = SPLITS == 1
    make = torch.empty if whole else torch.zeros
    out = make((B, P, Q, K), dtype=x.dtype if whole else torch.float32, device=x.device)
    pixels = B * P * Q
    length = triton.cdiv(triton.cdiv(R * R * C, SPLITS), BLOCK_K) * BLOCK_K
    grid = (triton.cdiv(pixels, BLOCK_M), triton.cdiv(K, BLOCK_N), SPLITS)
    flat_kernel[grid](
        x, weight, out, H, W, C, K, P, Q, pixels, stride, length, R, BLOCK_M, BLOCK_N, BLOCK_K,
        not whole, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out.to(x.dtype)
