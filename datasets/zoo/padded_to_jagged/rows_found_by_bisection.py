"""A program takes some rows of the result, finds their sequences, and copies bands of columns."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.padded_to_jagged.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32, 64],
    "COLS": [16, 32, 64, 128, 256],
    "num_warps": [1, 2, 4],
}


@triton.jit
def packing_kernel(
    padded_ptr, offsets_ptr, out_ptr, B, L, D, T,
    BITS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    low = tl.zeros((ROWS,), dtype=tl.int32)
    high = tl.full((ROWS,), B, dtype=tl.int32)
    for _ in range(BITS):  # offsets[low] <= t < offsets[high]
        middle = (low + high) // 2
        after = tl.load(offsets_ptr + middle, mask=t < T, other=0) > t
        low, high = tl.where(after, low, middle), tl.where(after, middle, high)
    row = t - tl.load(offsets_ptr + low, mask=t < T, other=0)
    for start in range(0, D, COLS):
        d = start + tl.arange(0, COLS)
        inside = (t[:, None] < T) & (row[:, None] < L) & (d[None, :] < D)
        from_ptrs = padded_ptr + (low * L + row)[:, None] * D + d[None, :]
        values = tl.load(from_ptrs, mask=inside, other=0.0)
        to_ptrs = out_ptr + t[:, None] * D + d[None, :]
        tl.store(to_ptrs, values, mask=(t[:, None] < T) & (d[None, :] < D))


def valid(params, shape):
    """One to 16 values a thread, no band far wider than a row."""
    held = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    return 1 <= held <= 16 and params["COLS"] < 2 * max(shape["D"], 32)


def kernel(padded, offsets, total, *, ROWS=16, COLS=32, num_warps=2):
    B, L, D = padded.shape
    out = torch.empty((total, D), dtype=padded.dtype, device=padded.device)
    packing_kernel[(triton.cdiv(total, ROWS),)](
        padded, offsets, out, B, L, D, total, B.bit_length(), ROWS, COLS, num_warps=num_warps
    )
    return out
