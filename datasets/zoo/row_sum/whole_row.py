"""Each row at once, in a block as long as the next power of two; a program does a few rows."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.row_sum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "STEPS": [1, 2, 4, 8],
    "EVICTION": ["", "evict_first"],
    "num_warps": [1, 2, 4, 8, 16, 32],
}


@triton.jit
def row_sum_whole_kernel(
    x_ptr, out_ptr, M, N,
    ROWS: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr, EVICTION: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, BLOCK)
    for step in range(STEPS):
        rows = (tl.program_id(0) * STEPS + step) * ROWS + tl.arange(0, ROWS)
        inside = (rows < M)[:, None] & (cols < N)[None, :]
        place = x_ptr + rows[:, None] * N + cols[None, :]
        x = tl.load(place, mask=inside, other=0.0, eviction_policy=EVICTION)
        tl.store(out_ptr + rows, tl.sum(x.to(tl.float32), axis=1), mask=rows < M)


def valid(params, shape):
    """A row in registers: one to 128 values a thread, in blocks of at most 32768."""
    block = 1 << (shape["N"] - 1).bit_length()
    held = params["ROWS"] * block / (32 * params["num_warps"])
    return block <= 32768 and 1 <= held <= 128


def kernel(x, *, ROWS=1, STEPS=1, EVICTION="", num_warps=8):
    M, N = x.shape
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    row_sum_whole_kernel[(triton.cdiv(M, ROWS * STEPS),)](
        x, out, M, N, ROWS, STEPS, triton.next_power_of_2(N), EVICTION, num_warps=num_warps
    )
    return out
