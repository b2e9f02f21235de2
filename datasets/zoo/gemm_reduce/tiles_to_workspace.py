"""A tile a program in grouped order; each writes its rows' maxima, which a second kernel joins."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_reduce.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [64, 128, 256],
    "BLOCK_K": [32, 64],
    "GROUP_M": [1, 8],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def tile_kernel(
    x_ptr, w_ptr, part_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    high, wide = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    group = tl.program_id(0) // (GROUP_M * wide)
    height = min(high - group * GROUP_M, GROUP_M)
    i = group * GROUP_M + tl.program_id(0) % (GROUP_M * wide) % height
    j = tl.program_id(0) % (GROUP_M * wide) // height
    m, n = i * BLOCK_M + tl.arange(0, BLOCK_M), j * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    # Rows of w past the end repeat the last one, which changes no maximum.
    x_ptrs = x_ptr + tl.minimum(m, M - 1)[:, None] * K + k[None, :]
    w_ptrs = w_ptr + tl.minimum(n, N - 1)[None, :] * K + k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        x = tl.load(x_ptrs, mask=k[None, :] < K - k0, other=0.0)
        w = tl.load(w_ptrs, mask=k[:, None] < K - k0, other=0.0)
        acc = tl.dot(x, w, acc)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
    tl.store(part_ptr + j * M + m, tl.max(acc, axis=1), mask=m < M)


@triton.jit
def join_kernel(part_ptr, out_ptr, M, parts, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    for part in range(parts):
        best = tl.maximum(best, tl.load(part_ptr + part * M + m, mask=m < M, other=0.0))
    tl.store(out_ptr + m, best, mask=m < M)


def valid(params, shape):
    """The pipelined tiles fit in shared memory, the accumulator in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    return shared <= 227 * 1024 and 16 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, *, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, GROUP_M=8, num_warps=8, num_stages=3
):  # fmt: skip
    (M, K), N = x.shape, w.shape[0]
    wide = triton.cdiv(N, BLOCK_N)
    parts = torch.empty((wide, M), dtype=torch.float32, device=x.device)
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    tile_kernel[(triton.cdiv(M, BLOCK_M) * wide,)](
        x, w, parts, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    join_kernel[(triton.cdiv(M, 128),)](parts, out, M, wide, 128, num_warps=4)
    return out
