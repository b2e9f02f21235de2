"""Lower tiles of parts of the sum, added atomically in fp32; a second kernel fills both halves."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.syrk_scaled.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "PARTS": [2, 4, 8],
    "BLOCK": [64, 128],
    "BLOCK_K": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def parts_kernel(
    x_ptr, weights_ptr, sum_ptr, M, K, LENGTH, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    i, j = tl.program_id(1), tl.program_id(0)
    if j > i:
        return
    m, n = i * BLOCK + tl.arange(0, BLOCK), j * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    first = tl.program_id(2) * LENGTH
    for k0 in range(first, min(first + LENGTH, K), BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        a_mask = (m[:, None] < M) & (k[None, :] < K)
        b_mask = (k[:, None] < K) & (n[None, :] < M)
        a = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=a_mask, other=0.0)
        b = tl.load(x_ptr + n[None, :] * K + k[:, None], mask=b_mask, other=0.0)
        weight = tl.load(weights_ptr + k, mask=k < K, other=0.0)
        acc = tl.dot(a, (b * weight[:, None]).to(a.dtype), acc)
    inside = (m[:, None] < M) & (n[None, :] < M)
    tl.atomic_add(sum_ptr + m[:, None] * M + n[None, :], acc, mask=inside, sem="relaxed")


@triton.jit
def fill_kernel(sum_ptr, out_ptr, M, shift, SIDE: tl.constexpr):
    m = tl.program_id(1) * SIDE + tl.arange(0, SIDE)[:, None]
    n = tl.program_id(0) * SIDE + tl.arange(0, SIDE)[None, :]
    inside = (m < M) & (n < M)
    low = tl.load(sum_ptr + tl.maximum(m, n) * M + tl.minimum(m, n), mask=inside, other=0.0)
    low += tl.where(m == n, shift, 0.0)
    tl.store(out_ptr + m * M + n, low.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Tiles, loaded and weighted, fit in shared memory; the sum in registers."""
    side, k = params["BLOCK"], params["BLOCK_K"]
    shared = (2 * params["num_stages"] + 1) * side * k * itemsize(shape)
    return shared <= 220 * 1024 and 16 <= side * side / (32 * params["num_warps"]) <= 64


def kernel(
    x, weights, shift, *, PARTS=2, BLOCK=128, BLOCK_K=32, num_warps=8, num_stages=3
):  # fmt: skip
    M, K = x.shape
    total = torch.zeros((M, M), dtype=torch.float32, device=x.device)
    out = torch.empty((M, M), dtype=x.dtype, device=x.device)
    side = triton.cdiv(M, BLOCK)
    length = triton.cdiv(triton.cdiv(K, BLOCK_K), PARTS) * BLOCK_K
    parts_kernel[(side, side, triton.cdiv(K, length))](
        x, weights, total, M, K, length, BLOCK, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    fill = triton.cdiv(M, 64)
    fill_kernel[(fill, fill)](total, out, M, shift, 64, num_warps=4)
    return out
