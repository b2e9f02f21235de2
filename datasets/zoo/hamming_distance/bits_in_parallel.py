"""Tiles of pairs, word by word; bits are counted by adding ever wider fields."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.hamming_distance.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BM": [1, 4, 16, 32],
    "BN": [32, 64, 128, 256],
    "num_warps": [2, 4, 8],
}


@triton.jit
def ones(x):
    x = x - ((x >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return (x * 0x01010101) >> 24


@triton.jit
def hamming_kernel(a_ptr, b_ptr, out_ptr, M, N, WORDS, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.uint32)
    for word in range(WORDS):
        a = tl.load(a_ptr + m * WORDS + word, mask=m < M, other=0).to(tl.uint32, bitcast=True)
        b = tl.load(b_ptr + n * WORDS + word, mask=n < N, other=0).to(tl.uint32, bitcast=True)
        total += ones(a[:, None] ^ b[None, :])
    at = m[:, None].to(tl.int64) * N + n[None, :]
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + at, total.to(tl.int32), mask=mask)


def valid(params, shape):
    """Two to 32 pairs a thread; not far more queries than there are, but for the default."""
    held = params["BM"] * params["BN"] / (32 * params["num_warps"])
    return 2 <= held <= 32 and (params["BM"] < 2 * shape["M"] or params["BM"] == 4)


def kernel(a, b, *, BM=4, BN=128, num_warps=2):
    M, words = a.shape
    N = b.shape[0]
    out = torch.empty((M, N), dtype=torch.int32, device=a.device)
    grid = (triton.cdiv(N, BN), triton.cdiv(M, BM))
    hamming_kernel[grid](a, b, out, M, N, words, BM, BN, num_warps=num_warps)
    return out
