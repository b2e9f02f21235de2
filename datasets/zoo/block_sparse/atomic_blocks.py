"""A program a few blocks and some columns: the row is found by bisection, sums are atomic."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.block_sparse.problem import SHAPES, TOLERANCE, fits, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_N": [16, 32, 64, 128, 256],
    "RUN": [1, 2, 4, 8],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def blocks_kernel(
    row_ptr, cols_ptr, values_ptr, x_ptr, sums_ptr, ROWS, COUNT, N,
    BITS: tl.constexpr, SIDE: tl.constexpr, BLOCK_N: tl.constexpr, RUN: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * RUN
    low, high = 0, ROWS
    for _ in range(BITS):  # row_ptr[low] <= first < row_ptr[high] throughout
        middle = (low + high) // 2
        after = tl.load(row_ptr + middle) > first
        low, high = tl.where(after, low, middle), tl.where(after, middle, high)
    end = tl.load(row_ptr + low + 1)
    i = tl.arange(0, SIDE)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    acc = tl.zeros((SIDE, BLOCK_N), dtype=tl.float32)
    last = min(first + RUN, COUNT)
    for place in range(first, last):
        at = place * SIDE * SIDE + i[:, None] * SIDE + i[None, :]
        x_at = (tl.load(cols_ptr + place) * SIDE + i)[:, None] * N + n
        acc = tl.dot(tl.load(values_ptr + at), tl.load(x_ptr + x_at, mask=n < N, other=0.0), acc)
        if (place + 1 == end) | (place + 1 == last):  # what a row has got goes to memory
            out_at = (low * SIDE + i)[:, None] * N + n
            tl.atomic_add(sums_ptr + out_at, acc, mask=n < N, sem="relaxed")
            acc = tl.zeros((SIDE, BLOCK_N), dtype=tl.float32)
            while (end <= place + 1) & (low + 1 < ROWS):  # rows may be empty
                low += 1
                end = tl.load(row_ptr + low + 1)


def valid(params, shape):
    return fits(shape, params["BLOCK_N"], params["num_warps"], params["num_stages"])


def kernel(row_ptr, cols, values, x, *, BLOCK_N=64, RUN=2, num_warps=4, num_stages=2):
    rows, (count, side, _), N = row_ptr.numel() - 1, values.shape, x.shape[1]
    sums = torch.zeros((rows * side, N), dtype=torch.float32, device=x.device)
    blocks_kernel[(triton.cdiv(count, RUN), triton.cdiv(N, BLOCK_N))](
        row_ptr, cols, values, x, sums, rows, count, N, rows.bit_length(), side, BLOCK_N, RUN,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return sums.to(x.dtype)
