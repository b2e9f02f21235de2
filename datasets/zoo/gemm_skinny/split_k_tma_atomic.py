"""K split among programs that add to an fp32 result atomically; TMA copies the tiles of w."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.datasets.zoo.gemm_skinny.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SPLIT": [1, 2, 4, 8],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [64, 128, 256],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def tma_split_kernel(
    x_ptr, w_tiles, sum_ptr, M, N, K, LENGTH,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    n0 = tl.program_id(1) * BLOCK_N
    m, k = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_K)
    first = tl.program_id(0) * LENGTH
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(first, min(first + LENGTH, K), BLOCK_K):
        x_mask = (m[:, None] < M) & (k0 + k[None, :] < K)
        x = tl.load(x_ptr + m[:, None] * K + k0 + k[None, :], mask=x_mask, other=0.0)
        acc = tl.dot(x, w_tiles.load([n0, k0]).T, acc)
    n = n0 + tl.arange(0, BLOCK_N)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.atomic_add(sum_ptr + m[:, None] * N + n[None, :], acc, mask=inside, sem="relaxed")


@triton.jit
def cast_kernel(sum_ptr, out_ptr, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(
        out_ptr + at, tl.load(sum_ptr + at, mask=at < size).to(out_ptr.dtype.element_ty), at < size
    )


def tile_rows(M):
    """Rows of the tile of x, with padding."""
    return max(16, triton.next_power_of_2(M))


def valid(params, shape):
    """Rows of w start at multiples of 16 bytes; tiles fit in shared memory."""
    m, n, k = tile_rows(shape["M"]), params["BLOCK_N"], params["BLOCK_K"]
    if shape["K"] * itemsize(shape) % 16 or params["SPLIT"] * k > shape["K"]:
        return False
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    return shared <= 227 * 1024 and 2 <= m * n / (32 * params["num_warps"]) <= 64


def kernel(x, w, *, SPLIT=2, BLOCK_N=64, BLOCK_K=128, num_warps=4, num_stages=3):
    (M, K), N = x.shape, w.shape[0]
    total = torch.zeros((M, N), dtype=torch.float32, device=x.device)
    length = triton.cdiv(triton.cdiv(K, BLOCK_K), SPLIT) * BLOCK_K
    tma_split_kernel[(SPLIT, triton.cdiv(N, BLOCK_N))](
        x, TensorDescriptor.from_tensor(w, [BLOCK_N, BLOCK_K]), total, M, N, K, length,
        tile_rows(M), BLOCK_N, BLOCK_K, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    if x.dtype == torch.float32:
        return total
    out = torch.empty_like(total, dtype=x.dtype)
    cast_kernel[(triton.cdiv(M * N, 1024),)](total, out, M * N, 1024)
    return out
