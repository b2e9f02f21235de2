"""Inclusive sums along few long rows: a program a row, a block at a time, with what came before."""

import torch
import triton
import triton.language as tl

SHAPES = [{"rows": 64, "n": 131072}]
HELD_OUT_SHAPES = [{"rows": 3, "n": 10007}]
TOLERANCE = {"rtol": 1e-3, "atol": 1e-1}


def reference(x):
    return torch.cumsum(x, -1)


def inputs(rows=64, n=131072, device="cuda"):
    return (torch.rand(rows, n, device=device),)


@triton.jit
def cumsum_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    carry = 0.0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + at, mask=at < n, other=0.0)
        tl.store(y_ptr + row * n + at, tl.cumsum(x, axis=0) + carry, mask=at < n)
        carry += tl.sum(x, axis=0)


def kernel(x):
    y = torch.empty_like(x)
    rows, n = x.shape
    cumsum_kernel[(rows,)](x, y, n, BLOCK=256)
    return y
