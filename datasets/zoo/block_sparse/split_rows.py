"""Rows of blocks split among programs that leave partial sums, which a second kernel adds up."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.block_sparse.problem import SHAPES, TOLERANCE, fits, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_N": [16, 32, 64, 128],
    "PARTS": [2, 4, 8],
    "TRANSPOSED": [False, True],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def part_kernel(
    row_ptr, cols_ptr, values_ptr, x_ptr, parts_ptr, N,
    SIDE: tl.constexpr, BLOCK_N: tl.constexpr, PARTS: tl.constexpr, TRANSPOSED: tl.constexpr,
):  # fmt: skip
    row, part = tl.program_id(0), tl.program_id(2)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    i = tl.arange(0, SIDE)
    out_at = ((part * tl.num_programs(0) + row) * SIDE + i[:, None]) * N + n[None, :]
    acc = tl.zeros((BLOCK_N, SIDE) if TRANSPOSED else (SIDE, BLOCK_N), dtype=tl.float32)
    for place in range(tl.load(row_ptr + row) + part, tl.load(row_ptr + row + 1), PARTS):
        k = tl.load(cols_ptr + place) * SIDE + i
        a = tl.load(values_ptr + (place * SIDE + i[:, None]) * SIDE + i[None, :])
        x = tl.load(x_ptr + k[:, None] * N + n[None, :], mask=n[None, :] < N, other=0.0)
        acc = tl.dot(x.T, a.T, acc) if TRANSPOSED else tl.dot(a, x, acc)
    tl.store(parts_ptr + out_at, acc.T if TRANSPOSED else acc, mask=n[None, :] < N)


@triton.jit
def add_kernel(parts_ptr, out_ptr, SIZE, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in tl.static_range(PARTS):
        total += tl.load(parts_ptr + part * SIZE + i, mask=i < SIZE, other=0.0)
    tl.store(out_ptr + i, total.to(out_ptr.dtype.element_ty), mask=i < SIZE)


def valid(params, shape):
    """Tiles fit, and parts have blocks in a row of mean length."""
    fitting = fits(shape, params["BLOCK_N"], params["num_warps"], params["num_stages"])
    return fitting and params["PARTS"] <= shape["BLOCKS"]


def kernel(
    row_ptr, cols, values, x, *,
    BLOCK_N=64, PARTS=2, TRANSPOSED=False, num_warps=4, num_stages=2,
):  # fmt: skip
    rows, side, N = row_ptr.numel() - 1, values.shape[1], x.shape[1]
    parts = torch.empty((PARTS, rows * side, N), dtype=torch.float32, device=x.device)
    out = torch.empty((rows * side, N), dtype=x.dtype, device=x.device)
    part_kernel[(rows, triton.cdiv(N, BLOCK_N), PARTS)](
        row_ptr, cols, values, x, parts, N, side, BLOCK_N, PARTS, TRANSPOSED,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    add_kernel[(triton.cdiv(out.numel(), 1024),)](parts, out, out.numel(), PARTS, 1024)
    return out
