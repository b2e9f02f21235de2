"""A program a row of blocks and some columns: block after block, the sum in registers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.block_sparse.problem import SHAPES, TOLERANCE, fits, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_N": [16, 32, 64, 128, 256],
    "COLUMNS_FIRST": [False, True],
    "EVICT": ["", "evict_last"],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def row_kernel(
    row_ptr, cols_ptr, values_ptr, x_ptr, out_ptr, N,
    SIDE: tl.constexpr, BLOCK_N: tl.constexpr, COLUMNS_FIRST: tl.constexpr, EVICT: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1 if COLUMNS_FIRST else 0)
    n = tl.program_id(0 if COLUMNS_FIRST else 1) * BLOCK_N + tl.arange(0, BLOCK_N)
    i, j = tl.arange(0, SIDE)[:, None], tl.arange(0, SIDE)
    acc = tl.zeros((SIDE, BLOCK_N), dtype=tl.float32)
    for place in range(tl.load(row_ptr + row), tl.load(row_ptr + row + 1)):
        col = tl.load(cols_ptr + place)
        a = tl.load(values_ptr + place * SIDE * SIDE + i * SIDE + j[None, :])
        at = (col * SIDE + j)[:, None] * N + n[None, :]
        x = tl.load(x_ptr + at, mask=n[None, :] < N, other=0.0, eviction_policy=EVICT)
        acc = tl.dot(a, x, acc)
    at = out_ptr + (row * SIDE + i) * N + n[None, :]
    tl.store(at, acc.to(out_ptr.dtype.element_ty), mask=n[None, :] < N)


def valid(params, shape):
    return fits(shape, params["BLOCK_N"], params["num_warps"], params["num_stages"])


def kernel(
    row_ptr, cols, values, x, *,
    BLOCK_N=64, COLUMNS_FIRST=False, EVICT="", num_warps=4, num_stages=2,
):  # fmt: skip
    rows, side, N = row_ptr.numel() - 1, values.shape[1], x.shape[1]
    out = torch.empty((rows * side, N), dtype=x.dtype, device=x.device)
    grid = (rows, triton.cdiv(N, BLOCK_N))
    row_kernel[grid[::-1] if COLUMNS_FIRST else grid](
        row_ptr, cols, values, x, out, N, side, BLOCK_N, COLUMNS_FIRST, EVICT,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
