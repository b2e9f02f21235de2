"""Split K for few rows: both products are added to fp32 sums atomically, then gated."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gated_mlp.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SPLIT": [2, 4, 8],
    "BLOCK_M": [16, 32, 64],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 4],
}


@triton.jit
def split_kernel(
    x, gate, up, gate_sum, up_sum, M, N, K, SPLIT: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    a = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    b = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(tl.program_id(2) * BLOCK_K, K, SPLIT * BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        left = tl.load(x + rows * K + k[None, :], mask=(rows < M) & (k[None, :] < K), other=0.0)
        inside = (k[:, None] < K) & (cols < N)
        at = k[:, None] * N + cols
        a = tl.dot(left, tl.load(gate + at, inside, 0.0, eviction_policy="evict_first"), a)
        b = tl.dot(left, tl.load(up + at, inside, 0.0, eviction_policy="evict_first"), b)
    inside = (rows < M) & (cols < N)
    tl.atomic_add(gate_sum + rows * N + cols, a, mask=inside, sem="relaxed")
    tl.atomic_add(up_sum + rows * N + cols, b, mask=inside, sem="relaxed")


@triton.jit
def silu_kernel(gate_sum, up_sum, out, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    gated = tl.load(gate_sum + at, mask=at < size)
    h = gated / (1 + tl.exp(-gated)) * tl.load(up_sum + at, mask=at < size)
    tl.store(out + at, h.to(out.dtype.element_ty), mask=at < size)


def valid(params, shape):
    """Few rows; tiles fit in shared memory, sums in registers; each part has a block of K."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + 2 * n) * k * itemsize(shape)
    apt = shape["M"] <= 512 and m < 2 * max(16, shape["M"]) and k * params["SPLIT"] <= shape["K"]
    return apt and shared <= 227 * 1024 and 4 <= 2 * m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, gate, up, *, SPLIT=4, BLOCK_M=16, BLOCK_N=64, BLOCK_K=64, num_warps=4, num_stages=4
):  # fmt: skip
    (M, K), N = x.shape, gate.shape[1]
    sums = torch.zeros((2, M, N), dtype=torch.float32, device=x.device)
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    split_kernel[(triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M), SPLIT)](
        x, gate, up, sums[0], sums[1], M, N, K, SPLIT, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    silu_kernel[(triton.cdiv(M * N, 1024),)](sums[0], sums[1], out, M * N, 1024)
    return out
