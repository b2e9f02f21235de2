"""Batched products of 24 x 40 by 40 x 24 matrices as sums of outer products, a matrix a program."""

import torch
import triton
import triton.language as tl

SHAPES = [{"count": 20000, "m": 24, "k": 40, "n": 24}]
HELD_OUT_SHAPES = [{"count": 55, "m": 12, "k": 7, "n": 20}]
TOLERANCE = {"rtol": 2e-2, "atol": 5e-2}


def reference(left, right):
    return torch.bmm(left.float(), right.float()).to(left.dtype)


def inputs(count=20000, m=24, k=40, n=24, device="cuda"):
    left = torch.randn(count, m, k, device=device, dtype=torch.float16)
    return left, torch.randn(count, k, n, device=device, dtype=torch.float16)


@triton.jit
def outer_sum(L, R, C, m, k, n, BM: tl.constexpr, BN: tl.constexpr):
    mat = tl.program_id(0)
    rm = tl.arange(0, BM)
    rn = tl.arange(0, BN)
    acc = tl.zeros([BM, BN], dtype=tl.float32)
    for i in range(k):
        col = tl.load(L + mat * m * k + rm * k + i, mask=rm < m, other=0.0).to(tl.float32)
        row = tl.load(R + mat * k * n + i * n + rn, mask=rn < n, other=0.0).to(tl.float32)
        acc += col[:, None] * row[None, :]
    out = C + mat * m * n + rm[:, None] * n + rn[None, :]
    tl.store(out, acc.to(tl.float16), mask=(rm[:, None] < m) & (rn[None, :] < n))


def kernel(left, right):
    count, m, k = left.shape
    n = right.shape[2]
    result = torch.empty((count, m, n), device=left.device, dtype=left.dtype)
    bm, bn = triton.next_power_of_2(m), triton.next_power_of_2(n)
    outer_sum[(count,)](left, right, result, m, k, n, BM=bm, BN=bn)
    return result
