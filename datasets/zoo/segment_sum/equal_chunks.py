"""Equal chunks of rows, walked one by one; a sum is added atomically where the segment changes."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.segment_sum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "CHUNK": [4, 8, 16, 32, 64, 128],
    "COLS": [32, 64, 128, 256, 512],
    "PREFETCH": [True, False],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def chunk_kernel(
    rows_ptr, ids_ptr, out_ptr, T, D,
    CHUNK: tl.constexpr, COLS: tl.constexpr, PREFETCH: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * CHUNK
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    end = tl.minimum(first + CHUNK, T)
    segment = tl.load(ids_ptr + first)
    total = tl.zeros((COLS,), dtype=tl.float32)
    ahead = tl.load(rows_ptr + first * D + cols, mask=cols < D, other=0.0)
    for t in range(first, end):
        row = ahead
        if PREFETCH:
            inside = (cols < D) & (t + 1 < end)
            ahead = tl.load(rows_ptr + (t + 1) * D + cols, mask=inside, other=0.0)
        else:
            row = tl.load(rows_ptr + t * D + cols, mask=cols < D, other=0.0)
        here = tl.load(ids_ptr + t)
        if here != segment:
            tl.atomic_add(out_ptr + segment * D + cols, total, mask=cols < D, sem="relaxed")
            total = tl.zeros((COLS,), dtype=tl.float32)
            segment = here
        total += row.to(tl.float32)
    tl.atomic_add(out_ptr + segment * D + cols, total, mask=cols < D, sem="relaxed")


def valid(params, shape):
    """One to 16 columns a thread, no band far wider than a row."""
    return (
        1 <= params["COLS"] / (32 * params["num_warps"]) <= 16 and params["COLS"] < 8 * shape["D"]
    )


def kernel(rows, ids, offsets, *, CHUNK=16, COLS=128, PREFETCH=True, num_warps=2):
    T, D = rows.shape
    out = torch.zeros((offsets.shape[0] - 1, D), dtype=torch.float32, device=rows.device)
    chunk_kernel[(triton.cdiv(T, CHUNK), triton.cdiv(D, COLS))](
        rows, ids, out, T, D, CHUNK, COLS, PREFETCH, num_warps=num_warps
    )
    return out
