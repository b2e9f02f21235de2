"""Softmax by programs that stay: each walks over rows with a stride, loads pipelined ahead."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PROGRAMS": [132, 264, 528, 1056, 2112],
    "STRIDED": [True, False],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3, 4, 6],
}


@triton.jit
def persistent_kernel(x_ptr, y_ptr, M, N, STRIDED: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)  # 64 bits: so are the rows' offsets
    programs = tl.num_programs(0)
    share = tl.cdiv(M, programs)
    first = pid if STRIDED else pid * share
    last = M if STRIDED else tl.minimum(first + share, M)
    step = programs if STRIDED else 1
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    for row in tl.range(first, last, step):
        base = row * N
        x = tl.load(x_ptr + base + cols, mask=mask, other=float("-inf")).to(tl.float32)
        x -= tl.max(x, axis=0)
        numerator = tl.exp(x)
        y = numerator / tl.sum(numerator, axis=0)
        tl.store(y_ptr + base + cols, y.to(y_ptr.dtype.element_ty), mask=mask)


def valid(params, shape):
    """One to 64 values a thread, rows that registers hold and stages that shared memory does."""
    block = triton.next_power_of_2(shape["N"])
    held = block / (32 * params["num_warps"])
    fits = 4 * block * params["num_stages"] <= 227 * 1024
    return block <= 8192 and 1 <= held <= 64 and fits and params["PROGRAMS"] <= shape["M"]


def kernel(x, *, PROGRAMS=528, STRIDED=True, num_warps=4, num_stages=2):
    M, N = x.shape
    y = torch.empty_like(x)
    block = triton.next_power_of_2(N)
    persistent_kernel[(min(PROGRAMS, M),)](
        x, y, M, N, STRIDED, block, num_warps=num_warps, num_stages=num_stages
    )
    return y
