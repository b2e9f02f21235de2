"""K split among programs that write fp32 parts to a workspace; a second kernel adds them."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SPLIT_K": [2, 4, 8, 16],
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64],
    "ADD_BLOCK": [512, 2048],
    "num_warps": [4, 8],
    "num_stages": [2, 4],
}


@triton.jit
def part_kernel(
    x_ptr, w_ptr, part_ptr, M, N, K, LENGTH,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    first = tl.program_id(2) * LENGTH
    last = min(first + LENGTH, K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(first, last, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        x_mask = (m[:, None] < M) & (k[None, :] < last)
        w_mask = (k[:, None] < last) & (n[None, :] < N)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=x_mask, other=0.0)
        w = tl.load(w_ptr + k[:, None] * N + n[None, :], mask=w_mask, other=0.0)
        acc = tl.dot(x, w, acc)
    offsets = tl.program_id(2) * M * N + m[:, None] * N + n[None, :]
    tl.store(part_ptr + offsets, acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def add_parts_kernel(part_ptr, out_ptr, size, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in tl.static_range(PARTS):
        total += tl.load(part_ptr + part * size + offsets, mask=offsets < size, other=0.0)
    tl.store(out_ptr + offsets, total.to(out_ptr.dtype.element_ty), mask=offsets < size)


def valid(params, shape):
    """Tiles fit in shared memory; the workspace stays under 256 MiB, a part over 64 long."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    workspace = params["SPLIT_K"] * shape["M"] * shape["N"] * 4
    fits = shared <= 227 * 1024 and workspace <= 2**28 and shape["K"] >= 64 * params["SPLIT_K"]
    return fits and 4 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, *, SPLIT_K=4, BLOCK_M=64, BLOCK_N=64, BLOCK_K=64, ADD_BLOCK=2048,
    num_warps=4, num_stages=4,
):  # fmt: skip
    (M, K), N = x.shape, w.shape[1]
    parts = torch.empty((SPLIT_K, M, N), dtype=torch.float32, device=x.device)
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    length = triton.cdiv(triton.cdiv(K, BLOCK_K), SPLIT_K) * BLOCK_K
    part_kernel[(triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M), SPLIT_K)](
        x, w, parts, M, N, K, length, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    add_parts_kernel[(triton.cdiv(M * N, ADD_BLOCK),)](parts, out, M * N, SPLIT_K, ADD_BLOCK)
    return out
