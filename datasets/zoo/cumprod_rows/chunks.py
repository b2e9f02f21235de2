"""Rows chunk by chunk by an associative scan, with the product so far carried on."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.cumprod_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8],
    "BLOCK": [64, 128, 256, 1024, 4096],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def chunk_kernel(x_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    i = tl.arange(0, BLOCK)[None, :]
    carry = tl.full((ROWS, 1), 1.0, tl.float32)
    for start in range(0, N, BLOCK):
        inside = (rows < M) & (start + i < N)
        x = tl.load(x_ptr + rows * N + start + i, mask=inside, other=1.0).to(tl.float32)
        products = tl.associative_scan(x, 1, multiply) * carry
        tl.store(out_ptr + rows * N + start + i, products.to(x_ptr.dtype.element_ty), mask=inside)
        carry = tl.sum(tl.where(i == BLOCK - 1, products, 0.0), axis=1, keep_dims=True)


def valid(params, shape):
    """Two to 32 elements a thread; chunks that a row can fill, 128 of them at most."""
    block = params["BLOCK"]
    each = params["ROWS"] * block / (32 * params["num_warps"])
    return 2 <= each <= 32 and block < 2 * shape["N"] and shape["N"] <= 128 * block


def kernel(x, *, ROWS=2, BLOCK=128, num_warps=1):
    M, N = x.shape
    out = torch.empty_like(x)
    chunk_kernel[(triton.cdiv(M, ROWS),)](x, out, M, N, ROWS, BLOCK, num_warps=num_warps)
    return out
