"""Two kernels: patches are written out as rows of a matrix (im2col), then a plain product."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.conv2d.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "COPY_BLOCK": [512, 1024, 2048],
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def unfold_kernel(
    x_ptr, patches_ptr, H, W, C, P, Q, STRIDE, total, WIDTH,
    R: tl.constexpr, COPY_BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * COPY_BLOCK + tl.arange(0, COPY_BLOCK)
    m, k = at // WIDTH, at % WIDTH
    tap, c = k // C, k % C
    y = m // Q % P * STRIDE + tap // R - R // 2
    z = m % Q * STRIDE + tap % R - R // 2
    there = (at < total) & (tap < R * R) & (y >= 0) & (y < H) & (z >= 0) & (z < W)
    x = tl.load(x_ptr + ((m // (P * Q) * H + y) * W + z) * C + c, mask=there, other=0.0)
    tl.store(patches_ptr + at, x, mask=at < total)


@triton.jit
def product_kernel(
    patches_ptr, weight_ptr, out_ptr, M, N, K, WIDTH,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    patches = patches_ptr + m[:, None] * WIDTH + k[None, :]
    weights = weight_ptr + n[None, :] * K + k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        left = (m[:, None] < M) & (start + k[None, :] < K)
        right = (n[None, :] < N) & (start + k[:, None] < K)
        x = tl.load(patches, mask=left, other=0.0)
        w = tl.load(weights, mask=right, other=0.0)
        acc = tl.dot(x, w, acc)
        patches += BLOCK_K
        weights += BLOCK_K
    inside = (m[:, None] < M) & (n[None, :] < N)
    out = out_ptr + m[:, None] * N + n[None, :]
    tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Tiles fit in shared memory, accumulators in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    size = 4 if shape["dtype"] in ("float32", torch.float32) else 2
    shared = params["num_stages"] * (m + n) * k * size
    return shared <= 220 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, weight, stride, *,
    COPY_BLOCK=1024, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=4, num_stages=3,
):  # fmt: skip
    B, H, W, C = x.shape
    N, R = weight.shape[:2]
    P, Q = (H - 1) // stride + 1, (W - 1) // stride + 1
    M, K = B * P * Q, R * R * C
    width = triton.cdiv(K, 8) * 8  # rows start at multiples of 16 bytes
    patches = torch.empty((M, width), dtype=x.dtype, device=x.device)
    out = torch.empty((B, P, Q, N), dtype=x.dtype, device=x.device)
    total = M * width
    unfold_kernel[(triton.cdiv(total, COPY_BLOCK),)](
        x, patches, H, W, C, P, Q, stride, total, width, R, COPY_BLOCK, num_warps=4
    )
    grid = (triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M))
    product_kernel[grid](
        patches, weight, out, M, N, K, width, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
