"""K split into parts in a workspace; the kernel that adds them up also scales."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_fp8.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SPLIT_K": [2, 4, 8],
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 4],
}


@triton.jit
def part_kernel(
    x_ptr, w_ptr, part_ptr, M, N, K, SPLIT_K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    part = tl.program_id(2)
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(part * BLOCK_K, K, SPLIT_K * BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        x_mask = (m[:, None] < M) & (k[None, :] < K)
        w_mask = (n[:, None] < N) & (k[None, :] < K)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=x_mask, other=0.0)
        w = tl.load(w_ptr + n[:, None] * K + k[None, :], mask=w_mask, other=0.0)
        acc = tl.dot(x, w.T, acc)
    at = part * M * N + m[:, None] * N + n[None, :]
    tl.store(part_ptr + at, acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def scale_kernel(
    part_ptr, x_scale_ptr, w_scale_ptr, out_ptr, M, N, PARTS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in tl.static_range(PARTS):
        total += tl.load(part_ptr + (part * M + row) * N + n, mask=n < N, other=0.0)
    scale = tl.load(x_scale_ptr + row) * tl.load(w_scale_ptr + n, mask=n < N, other=0.0)
    tl.store(out_ptr + row * N + n, (total * scale).to(out_ptr.dtype.element_ty), mask=n < N)


def valid(params, shape):
    """Tiles fit in shared memory; the workspace is below 256 MiB; each part has a block of K."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    workspace = params["SPLIT_K"] * shape["M"] * shape["N"] * 4
    fits = params["num_stages"] * (m + n) * k <= 227 * 1024 and workspace <= 2**28
    enough = shape["K"] >= params["SPLIT_K"] * k
    return enough and fits and 4 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, x_scale, w_scale, dtype, *, SPLIT_K=2, BLOCK_M=64, BLOCK_N=64, BLOCK_K=128,
    num_warps=4, num_stages=4,
):  # fmt: skip
    (M, K), N = x.shape, w.shape[0]
    parts = torch.empty((SPLIT_K, M, N), dtype=torch.float32, device=x.device)
    out = torch.empty((M, N), dtype=dtype, device=x.device)
    part_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N), SPLIT_K)](
        x, w, parts, M, N, K, SPLIT_K, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    scale_kernel[(M, triton.cdiv(N, 1024))](parts, x_scale, w_scale, out, M, N, SPLIT_K, 1024)
    return out
