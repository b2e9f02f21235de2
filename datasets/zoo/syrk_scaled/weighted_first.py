"""The weighted rows are written to memory, and all tiles made from both by TMA."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.datasets.zoo.syrk_scaled.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [64, 128, 256],
    "BLOCK_K": [32, 64],
    "GROUP_M": [1, 8],
    "num_warps": [4, 8],
    "num_stages": [3, 4],
}


@triton.jit
def weigh_kernel(x_ptr, weights_ptr, out_ptr, K, BLOCK: tl.constexpr):
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * K + k, mask=k < K, other=0.0).to(tl.float32)
    x *= tl.load(weights_ptr + k, mask=k < K, other=0.0)
    tl.store(out_ptr + tl.program_id(0) * K + k, x.to(out_ptr.dtype.element_ty), mask=k < K)


@triton.jit
def tiles_kernel(
    left_tiles, right_tiles, out_ptr, M, K, shift,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    high, wide = tl.cdiv(M, BLOCK_M), tl.cdiv(M, BLOCK_N)
    i, j = tl.swizzle2d(tl.program_id(0) // wide, tl.program_id(0) % wide, high, wide, GROUP_M)
    m0, n0 = i * BLOCK_M, j * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(left_tiles.load([m0, k]), right_tiles.load([n0, k]).T, acc)
    m, n = m0 + tl.arange(0, BLOCK_M), n0 + tl.arange(0, BLOCK_N)
    acc += tl.where(m[:, None] == n[None, :], shift, 0.0)
    inside = (m[:, None] < M) & (n[None, :] < M)
    tl.store(out_ptr + m[:, None] * M + n[None, :], acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Rows start at multiples of 16 bytes; tiles fit in shared memory, the sum in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    size = itemsize(shape)
    fits = params["num_stages"] * (m + n) * k * size <= 220 * 1024
    held = m * n / (32 * params["num_warps"])
    return shape["K"] * size % 16 == 0 and fits and 16 <= held <= 128


def kernel(
    x, weights, shift, *, BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, GROUP_M=8,
    num_warps=8, num_stages=4,
):  # fmt: skip
    M, K = x.shape
    weighted, out = torch.empty_like(x), torch.empty((M, M), dtype=x.dtype, device=x.device)
    weigh_kernel[(M, triton.cdiv(K, 1024))](x, weights, weighted, K, 1024)
    tiles_kernel[(triton.cdiv(M, BLOCK_M) * triton.cdiv(M, BLOCK_N),)](
        TensorDescriptor.from_tensor(weighted, [BLOCK_M, BLOCK_K]),
        TensorDescriptor.from_tensor(x, [BLOCK_N, BLOCK_K]),
        out, M, K, shift, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
