"""One pass over each row, chunk after chunk, with the sum so far carried along."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.cumsum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "BLOCK": [64, 128, 256, 512, 1024, 2048, 4096],
    "AHEAD": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def load_chunk(x_ptr, rows, cols, M, N):
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    return tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=inside, other=0.0)


@triton.jit
def chunk_kernel(
    x_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr, AHEAD: tl.constexpr
):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    before = tl.zeros((ROWS,), dtype=tl.float32)
    coming = load_chunk(x_ptr, rows, cols, M, N)
    for start in range(0, N, BLOCK):
        if AHEAD:  # the next chunk is under way while this one is scanned
            x = coming
            coming = load_chunk(x_ptr, rows, cols + (start + BLOCK), M, N)
        else:
            x = load_chunk(x_ptr, rows, cols + start, M, N)
        sums = tl.cumsum(x.to(tl.float32), axis=1) + before[:, None]
        inside = (rows[:, None] < M) & (start + cols[None, :] < N)
        out = out_ptr + rows[:, None] * N + start + cols[None, :]
        tl.store(out, sums.to(out_ptr.dtype.element_ty), mask=inside)
        before = tl.sum(tl.where(cols[None, :] == BLOCK - 1, sums, 0.0), axis=1)


def valid(params, shape):
    """One to 64 elements a thread, no chunk far longer than a row, up to 2048 of them."""
    rows, block = params["ROWS"], params["BLOCK"]
    fits = rows <= shape["M"] and shape["N"] / 2048 <= block < 2 * shape["N"]
    return fits and 1 <= rows * block / (32 * params["num_warps"]) <= 64


def kernel(x, *, ROWS=1, BLOCK=512, AHEAD=False, num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(M, ROWS),)
    chunk_kernel[grid](x, out, M, N, ROWS, BLOCK, AHEAD, num_warps=num_warps)
    return out
