"""Tokens split among programs that add to fp32 gradients atomically; one kernel rounds both."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.weight_gradient.problem import (
    SHAPES,
    TOLERANCE,
    inputs,
    itemsize,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SPLIT": [2, 4, 8, 16],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64, 128],
    "BLOCK_T": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def split_kernel(
    dy_ptr, x_ptr, sum_ptr, bias_ptr, T, N, K, LENGTH,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_T: tl.constexpr,
):  # fmt: skip
    n0, k0 = tl.program_id(0) * BLOCK_N, tl.program_id(1) * BLOCK_K
    start = tl.program_id(2) * LENGTH
    end = min(start + LENGTH, T)
    dy_tile = tl.make_block_ptr(dy_ptr, (end, N), (N, 1), (start, n0), (BLOCK_T, BLOCK_N), (1, 0))
    x_tile = tl.make_block_ptr(x_ptr, (end, K), (K, 1), (start, k0), (BLOCK_T, BLOCK_K), (1, 0))
    acc = tl.zeros((BLOCK_N, BLOCK_K), dtype=tl.float32)
    bias = tl.zeros((BLOCK_T, BLOCK_N), dtype=tl.float32)
    for _ in range(start, end, BLOCK_T):
        dy = tl.load(dy_tile, boundary_check=(0, 1), padding_option="zero")
        x = tl.load(x_tile, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(tl.trans(dy), x, acc)
        if k0 == 0:
            bias += dy.to(tl.float32)
        dy_tile = tl.advance(dy_tile, (BLOCK_T, 0))
        x_tile = tl.advance(x_tile, (BLOCK_T, 0))
    n, k = n0 + tl.arange(0, BLOCK_N), k0 + tl.arange(0, BLOCK_K)
    inside = (n[:, None] < N) & (k[None, :] < K)
    tl.atomic_add(sum_ptr + n[:, None] * K + k[None, :], acc, mask=inside, sem="relaxed")
    if k0 == 0:
        tl.atomic_add(bias_ptr + n, tl.sum(bias, axis=0), mask=n < N, sem="relaxed")


@triton.jit
def round_kernel(sum_ptr, dw_ptr, db_ptr, weights, biases, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(sum_ptr + at, mask=at < weights + biases).to(dw_ptr.dtype.element_ty)
    tl.store(dw_ptr + at, total, mask=at < weights)
    tl.store(db_ptr + at - weights, total, mask=(at >= weights) & (at < weights + biases))


def valid(params, shape):
    """Tiles fit in shared memory, sums in registers; every part has two blocks of tokens."""
    n, k, t = params["BLOCK_N"], params["BLOCK_K"], params["BLOCK_T"]
    shared = params["num_stages"] * (n + k) * t * itemsize(shape)
    enough = shape["T"] >= 2 * t * params["SPLIT"]
    sums = (n * k + t * n) / (32 * params["num_warps"])
    return enough and shared <= 227 * 1024 and 8 <= sums <= 128


def kernel(dy, x, *, SPLIT=4, BLOCK_N=64, BLOCK_K=64, BLOCK_T=32, num_warps=4, num_stages=3):
    (T, N), K = dy.shape, x.shape[1]
    sums = torch.zeros(N * K + N, dtype=torch.float32, device=x.device)
    dw = torch.empty((N, K), dtype=x.dtype, device=x.device)
    db = torch.empty(N, dtype=x.dtype, device=x.device)
    length = triton.cdiv(triton.cdiv(T, BLOCK_T), SPLIT) * BLOCK_T
    split_kernel[(triton.cdiv(N, BLOCK_N), triton.cdiv(K, BLOCK_K), SPLIT)](
        dy, x, sums, sums[N * K :], T, N, K, length, BLOCK_N, BLOCK_K, BLOCK_T,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    round_kernel[(triton.cdiv(N * K + N, 1024),)](sums, dw, db, N * K, N, 1024)
    return dw, db
