"""Stream-K: all steps of all tiles in one row, cut into equal shares; split tiles are added up."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PROGRAMS": [132, 264, 396],
    "BLOCK_M": [64, 128],
    "BLOCK_N": [64, 128],
    "BLOCK_K": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def stream_kernel(
    x_ptr, w_ptr, sum_ptr, M, N, K, SHARE,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    columns, steps = tl.cdiv(N, BLOCK_N), tl.cdiv(K, BLOCK_K)
    begin = tl.program_id(0) * SHARE
    end = min(begin + SHARE, tl.cdiv(M, BLOCK_M) * columns * steps)
    for tile in range(begin // steps, tl.cdiv(end, steps)):
        first = max(begin - tile * steps, 0)
        last = min(end - tile * steps, steps)
        m = tile // columns * BLOCK_M + tl.arange(0, BLOCK_M)
        n = tile % columns * BLOCK_N + tl.arange(0, BLOCK_N)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(first, last):
            k = step * BLOCK_K + tl.arange(0, BLOCK_K)
            x_mask = (m[:, None] < M) & (k[None, :] < K)
            w_mask = (k[:, None] < K) & (n[None, :] < N)
            x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=x_mask, other=0.0)
            w = tl.load(w_ptr + k[:, None] * N + n[None, :], mask=w_mask, other=0.0)
            acc = tl.dot(x, w, acc)
        sum_ptrs = sum_ptr + m[:, None] * N + n[None, :]
        inside = (m[:, None] < M) & (n[None, :] < N)
        if first == 0 and last == steps:
            tl.store(sum_ptrs, acc, mask=inside)
        else:
            tl.atomic_add(sum_ptrs, acc, mask=inside, sem="relaxed")


@triton.jit
def round_rows_kernel(sum_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0) * N
    for start in range(0, N, BLOCK):
        n = start + tl.arange(0, BLOCK)
        total = tl.load(sum_ptr + row + n, mask=n < N)
        tl.store(out_ptr + row + n, total.to(out_ptr.dtype.element_ty), mask=n < N)


def valid(params, shape):
    """The pipelined tiles fit in shared memory (227 KiB), the accumulator in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    return shared <= 227 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(x, w, *, PROGRAMS=132, BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, num_warps=8, num_stages=3):
    (M, K), N = x.shape, w.shape[1]
    total = torch.zeros((M, N), dtype=torch.float32, device=x.device)
    steps = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N) * triton.cdiv(K, BLOCK_K)
    share = triton.cdiv(steps, PROGRAMS)
    stream_kernel[(triton.cdiv(steps, share),)](
        x, w, total, M, N, K, share, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    if x.dtype == torch.float32:
        return total
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    round_rows_kernel[(M,)](total, out, N, 1024)
    return out
