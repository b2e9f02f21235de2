"""One kernel: each program makes its rows of x @ a.T anew, alongside its tile of x @ w.T."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.lora.problem import (
    SHAPES,
    TOLERANCE,
    inputs,
    itemsize,
    padded_rank,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def alongside_kernel(
    x_ptr, w_ptr, a_ptr, b_ptr, out_ptr, M, N, K, R, RANK: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m0, n0 = tl.program_id(1) * BLOCK_M, tl.program_id(0) * BLOCK_N
    x_tile = tl.make_block_ptr(x_ptr, (M, K), (K, 1), (m0, 0), (BLOCK_M, BLOCK_K), (1, 0))
    w_tile = tl.make_block_ptr(w_ptr, (K, N), (1, K), (0, n0), (BLOCK_K, BLOCK_N), (0, 1))
    a_tile = tl.make_block_ptr(a_ptr, (K, R), (1, K), (0, 0), (BLOCK_K, RANK), (0, 1))
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    low = tl.zeros((BLOCK_M, RANK), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        x = tl.load(x_tile, boundary_check=(0, 1), padding_option="zero")
        w = tl.load(w_tile, boundary_check=(0, 1), padding_option="zero")
        a = tl.load(a_tile, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(x, w, acc)
        low = tl.dot(x, a, low)
        x_tile = tl.advance(x_tile, (0, BLOCK_K))
        w_tile = tl.advance(w_tile, (BLOCK_K, 0))
        a_tile = tl.advance(a_tile, (BLOCK_K, 0))
    b_tile = tl.make_block_ptr(b_ptr, (R, N), (1, R), (0, n0), (RANK, BLOCK_N), (0, 1))
    b = tl.load(b_tile, boundary_check=(0, 1), padding_option="zero")
    acc = tl.dot(low.to(b.dtype), b, acc)
    out_tile = tl.make_block_ptr(out_ptr, (M, N), (N, 1), (m0, n0), (BLOCK_M, BLOCK_N), (1, 0))
    tl.store(out_tile, acc.to(out_ptr.dtype.element_ty), boundary_check=(0, 1))


def valid(params, shape):
    """The three tiles fit in shared memory, both sums in registers; rows not far beyond M."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    rank = padded_rank(shape["R"])
    shared = (params["num_stages"] * (m + n + rank) * k + (m + n) * rank) * itemsize(shape)
    near = m < 2 * max(16, shape["M"])
    sums = m * (n + rank) / (32 * params["num_warps"])
    return near and shared <= 227 * 1024 and 4 <= sums <= 128


def kernel(x, w, a, b, *, BLOCK_M=16, BLOCK_N=128, BLOCK_K=64, num_warps=4, num_stages=3):
    (M, K), (N, R) = x.shape, b.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    alongside_kernel[(triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M))](
        x, w, a, b, out, M, N, K, R, padded_rank(R), BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
