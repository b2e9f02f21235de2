"""Rows divided by their lengths, squares of split rows added up with atomics in a first launch."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.l2_normalize.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PART": [256, 512, 1024, 2048, 4096, 8192],
    "BLOCK": [128, 256, 512, 1024, 2048],
    "ELEMENTS": [512, 1024, 2048],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 3],
}


@triton.jit
def squares_kernel(x_ptr, square_ptr, N, PART: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    first = tl.program_id(1) * PART
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, PART, BLOCK):
        cols = first + start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row.to(tl.int64) * N + cols, mask=cols < N, other=0.0).to(tl.float32)
        acc += x * x
    tl.atomic_add(square_ptr + row, tl.sum(acc, axis=0), sem="relaxed")


@triton.jit
def divide_kernel(x_ptr, square_ptr, out_ptr, size, N, eps, ELEMENTS: tl.constexpr):
    at = tl.program_id(0) * ELEMENTS + tl.arange(0, ELEMENTS)
    mask = at < size
    x = tl.load(x_ptr + at, mask=mask).to(tl.float32)
    square = tl.load(square_ptr + at // N, mask=mask, other=1.0)
    out = x * tl.rsqrt(tl.maximum(square, eps * eps))
    tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=mask)


def valid(params, shape):
    """One to 32 values a thread, blocks within parts, no part far longer than a row."""
    threads = 32 * params["num_warps"]
    within = params["BLOCK"] <= params["PART"] and params["PART"] < 2 * max(shape["N"], 257)
    return within and all(1 <= params[key] / threads <= 32 for key in ("BLOCK", "ELEMENTS"))


def kernel(x, *, PART=512, BLOCK=256, ELEMENTS=1024, num_warps=4, num_stages=3):
    M, N = x.shape
    out = torch.empty_like(x)
    squares = torch.zeros(M, dtype=torch.float32, device=x.device)
    squares_kernel[(M, triton.cdiv(N, PART))](
        x, squares, N, PART, BLOCK, num_warps=num_warps, num_stages=num_stages
    )
    divide_kernel[(triton.cdiv(M * N, ELEMENTS),)](
        x, squares, out, M * N, N, EPS, ELEMENTS, num_warps=num_warps
    )
    return out
