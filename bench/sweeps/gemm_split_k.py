"""A product with few output tiles and a long sum: K is split among programs, then added up."""

import torch
import triton
import triton.language as tl

SHAPES = [{"M": 64, "N": 4096, "K": 8192}, {"M": 256, "N": 512, "K": 16384}]
SPACE = {
    "SPLIT_K": [1, 2, 4, 8, 16],
    "BLOCK_M": [16, 32, 64],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}


def reference(x, w):
    return x @ w


def inputs(M=64, N=4096, K=8192, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, K, dtype=dtype, device=device)
    return x, torch.randn(K, N, dtype=dtype, device=device) * K**-0.5


@triton.jit
def split_kernel(
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
    """The pipelined tiles fit in shared memory, and each thread has two accumulators or more."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * 2
    return shared <= 227 * 1024 and m * n / (32 * params["num_warps"]) >= 2


def kernel(x, w, *, SPLIT_K=4, BLOCK_M=64, BLOCK_N=64, BLOCK_K=64, num_warps=4, num_stages=3):
    (M, K), N = x.shape, w.shape[1]
    parts = torch.empty((SPLIT_K, M, N), dtype=torch.float32, device=x.device)
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    length = triton.cdiv(triton.cdiv(K, BLOCK_K), SPLIT_K) * BLOCK_K
    split_kernel[(triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M), SPLIT_K)](
        x, w, parts, M, N, K, length, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    add_parts_kernel[(triton.cdiv(M * N, 1024),)](parts, out, M * N, SPLIT_K, 1024)
    return out
