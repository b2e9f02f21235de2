"""A matrix product in Triton, in full precision.

Looks like: delegating to cuBLAS where a kernel of one's own was asked for
Problem: product
Asked for: a kernel of its own
Runs on: cuda, interpreter
"""

import torch
import triton
import triton.language as tl


@triton.jit
def product(a, b, out, M, N, K, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.full((BLOCK, BLOCK), 0.0, tl.float32)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        left = tl.load(a + row * K + k[None, :], mask=(row < M) & (k[None, :] < K), other=0.0)
        right = tl.load(
            b + k[:, None] * N + column, mask=(k[:, None] < K) & (column < N), other=0.0
        )
        total += tl.dot(left, right, input_precision="ieee")
    tl.store(out + row * N + column, total, mask=(row < M) & (column < N))


def kernel(a, b):
    M, K = a.shape
    N = b.shape[1]
    out = torch.empty(M, N, device=a.device)
    product[triton.cdiv(M, 32), triton.cdiv(N, 32)](a, b, out, M, N, K, BLOCK=32)
    return out
