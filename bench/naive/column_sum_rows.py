"""Sums of columns: a program takes a few columns and walks down all rows, one at a time."""

import torch
import triton
import triton.language as tl

SHAPES = [{"M": 16384, "N": 4096}]
HELD_OUT_SHAPES = [{"M": 5003, "N": 1001}]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def reference(x):
    return x.float().sum(0)


def inputs(M=16384, N=4096, dtype=torch.bfloat16, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device),)


@triton.jit
def column_sum_kernel(x_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < N
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(M):
        x = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0)
        total += x.to(tl.float32)
    tl.store(out_ptr + cols, total, mask=mask)


def kernel(x):
    M, N = x.shape
    out = torch.empty(N, dtype=torch.float32, device=x.device)
    column_sum_kernel[(triton.cdiv(N, 64),)](x, out, M, N, BLOCK=64)
    return out
