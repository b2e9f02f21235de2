"""A fixed number of programs strides over tiles, block pointers into blocks and dense matrix."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.block_sparse.problem import SHAPES, TOLERANCE, fits, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_N": [16, 32, 64, 128],
    "PROGRAMS": [132, 264, 528],
    "ROWS_FASTEST": [False, True],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def tiles_kernel(
    row_ptr, cols_ptr, values_ptr, x_ptr, out_ptr, ROWS, COUNT, K, N,
    SIDE: tl.constexpr, BLOCK_N: tl.constexpr, ROWS_FASTEST: tl.constexpr,
):  # fmt: skip
    across = tl.cdiv(N, BLOCK_N)
    for tile in range(tl.program_id(0), ROWS * across, tl.num_programs(0)):
        row = tile % ROWS if ROWS_FASTEST else tile // across
        n = (tile // ROWS if ROWS_FASTEST else tile % across) * BLOCK_N
        first, last = tl.load(row_ptr + row), tl.load(row_ptr + row + 1)
        a_block = tl.make_block_ptr(
            values_ptr, (COUNT * SIDE, SIDE), (SIDE, 1), (first * SIDE, 0), (SIDE, SIDE), (1, 0)
        )
        acc = tl.zeros((SIDE, BLOCK_N), dtype=tl.float32)
        for place in range(first, last):
            k = tl.load(cols_ptr + place) * SIDE
            x_block = tl.make_block_ptr(x_ptr, (K, N), (N, 1), (k, n), (SIDE, BLOCK_N), (1, 0))
            x = tl.load(x_block, boundary_check=(1,), padding_option="zero")
            acc += tl.dot(tl.load(a_block), x)
            a_block = tl.advance(a_block, (SIDE, 0))
        out_block = tl.make_block_ptr(
            out_ptr, (ROWS * SIDE, N), (N, 1), (row * SIDE, n), (SIDE, BLOCK_N), (1, 0)
        )
        tl.store(out_block, acc.to(out_ptr.dtype.element_ty), boundary_check=(1,))


def valid(params, shape):
    """Tiles fit, and every program beyond 132 has one."""
    tiles = shape["M"] // shape["SIDE"] * -(-shape["N"] // params["BLOCK_N"])
    busy = params["PROGRAMS"] <= max(132, tiles)
    return busy and fits(shape, params["BLOCK_N"], params["num_warps"], params["num_stages"])


def kernel(
    row_ptr, cols, values, x, *,
    BLOCK_N=64, PROGRAMS=132, ROWS_FASTEST=False, num_warps=4, num_stages=2,
):  # fmt: skip
    rows, (count, side, _), (K, N) = row_ptr.numel() - 1, values.shape, x.shape
    out = torch.empty((rows * side, N), dtype=x.dtype, device=x.device)
    tiles_kernel[(PROGRAMS,)](
        row_ptr, cols, values, x, out, rows, count, K, N, side, BLOCK_N, ROWS_FASTEST,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
