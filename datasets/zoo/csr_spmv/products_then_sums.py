"""The naive way: all products to memory, then the sum of each row's (several rows a program)."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.csr_spmv.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK": [256, 512, 1024, 2048, 4096],
    "ROWS": [1, 4, 16, 64],
    "WIDTH": [16, 64, 256],
    "num_warps": [2, 4, 8],
}


@triton.jit
def products_kernel(
    cols_ptr, values_ptr, x_ptr, products_ptr, COUNT, BLOCK: tl.constexpr
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.load(cols_ptr + i, mask=i < COUNT, other=0)
    values = tl.load(values_ptr + i, mask=i < COUNT)
    x = tl.load(x_ptr + cols, mask=i < COUNT)
    tl.store(products_ptr + i, values.to(tl.float32) * x.to(tl.float32), mask=i < COUNT)


@triton.jit
def sums_kernel(
    row_ptr, products_ptr, out_ptr, M, ROWS: tl.constexpr, WIDTH: tl.constexpr
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    first = tl.load(row_ptr + rows, mask=rows < M, other=0)[:, None]
    last = tl.load(row_ptr + rows + 1, mask=rows < M, other=0)[:, None]
    acc = tl.zeros((ROWS,), dtype=tl.float32)
    for start in range(0, tl.max(last - first), WIDTH):
        i = first + start + tl.arange(0, WIDTH)[None, :]
        acc += tl.sum(tl.load(products_ptr + i, mask=i < last, other=0.0), axis=1)
    tl.store(out_ptr + rows, acc.to(out_ptr.dtype.element_ty), mask=rows < M)


def valid(params, shape):
    """One to 32 elements of a tile a thread."""
    threads, tile = 32 * params["num_warps"], params["ROWS"] * params["WIDTH"]
    fits = 1 / 4 <= tile / threads <= 32 and 2 <= params["BLOCK"] / threads <= 32
    return fits and params["WIDTH"] * 64 >= shape["PER_ROW"]


def kernel(row_ptr, cols, values, x, *, BLOCK=1024, ROWS=4, WIDTH=64, num_warps=4):
    M, count = row_ptr.numel() - 1, values.numel()
    products = torch.empty(count, dtype=torch.float32, device=x.device)
    out = torch.empty(M, dtype=x.dtype, device=x.device)
    products_kernel[(triton.cdiv(count, BLOCK),)](
        cols, values, x, products, count, BLOCK, num_warps=num_warps
    )
    sums_kernel[(triton.cdiv(M, ROWS),)](
        row_ptr, products, out, M, ROWS, WIDTH, num_warps=num_warps
    )
    return out
