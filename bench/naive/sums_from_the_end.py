"""Sums of rows from each element to the end: a row a program, an element a trip, backwards."""

import torch
import triton
import triton.language as tl

SHAPES = [{"rows": 8192, "n": 4096}]
HELD_OUT_SHAPES = [{"rows": 70, "n": 1003}]
TOLERANCE = {"rtol": 1e-3, "atol": 1e-1}


def reference(x):
    return x.flip(1).cumsum(1).flip(1)


def inputs(rows=8192, n=4096, device="cuda"):
    return (torch.rand(rows, n, device=device),)


@triton.jit
def suffix_kernel(x_ptr, y_ptr, rows, n):
    row = tl.program_id(0)
    if row >= rows:
        return
    total = 0.0
    for i in range(n - 1, -1, -1):
        total += tl.load(x_ptr + row * n + i)
        tl.store(y_ptr + row * n + i, total)


def kernel(x):
    y = torch.empty_like(x)
    rows, n = x.shape
    suffix_kernel[(rows,)](x, y, rows, n)
    return y
