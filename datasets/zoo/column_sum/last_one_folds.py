"""One kernel: partial sums, a counter a band of columns, and whoever comes last folds the band."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.column_sum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [4, 16, 64],
    "COLS": [32, 64, 128, 256],
    "PARTS": [8, 16, 32, 64, 128],
    "num_warps": [2, 4, 8],
}


@triton.jit
def column_sum_counted_kernel(
    x_ptr, part_ptr, counter_ptr, out_ptr, M, N, length,
    ROWS: tl.constexpr, COLS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    band, part = tl.program_id(0), tl.program_id(1)
    cols = band * COLS + tl.arange(0, COLS)
    total = tl.zeros((ROWS, COLS), dtype=tl.float32)
    end = tl.minimum((part + 1) * length, M)
    for start in range(part * length, end, ROWS):
        rows = start + tl.arange(0, ROWS)
        inside = (rows[:, None] < end) & (cols[None, :] < N)
        x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=inside, other=0.0)
        total += x.to(tl.float32)
    tl.store(part_ptr + part * N + cols, tl.sum(total, axis=0), mask=cols < N)
    tl.debug_barrier()  # all threads have stored before the counter says so
    before = tl.atomic_add(counter_ptr + band, 1, sem="acq_rel")
    if before == PARTS - 1:
        parts = tl.arange(0, PARTS)
        sums = tl.load(
            part_ptr + parts[:, None] * N + cols[None, :],
            mask=(cols < N)[None, :],
            other=0.0,
            cache_modifier=".cg",  # others' sums lie in L2
        )
        tl.store(out_ptr + cols, tl.sum(sums, axis=0), mask=cols < N)


def valid(params, shape):
    """One to 64 values a thread in both tiles, and one to 3000 steps in a part."""
    threads = 32 * params["num_warps"]
    held = max(params["ROWS"], params["PARTS"]) * params["COLS"] / threads
    steps = shape["M"] / (params["PARTS"] * params["ROWS"])
    busy = steps <= 3000 and (steps >= 1 or params["ROWS"] == 4)
    return params["ROWS"] * params["COLS"] >= threads and held <= 64 and busy


def kernel(x, *, ROWS=4, COLS=64, PARTS=128, num_warps=4):
    M, N = x.shape
    bands = triton.cdiv(N, COLS)
    part = torch.empty((PARTS, N), dtype=torch.float32, device=x.device)
    counter = torch.zeros(bands, dtype=torch.int32, device=x.device)
    out = torch.empty(N, dtype=torch.float32, device=x.device)
    column_sum_counted_kernel[(bands, PARTS)](
        x, part, counter, out, M, N, triton.cdiv(M, PARTS), ROWS, COLS, PARTS, num_warps=num_warps
    )
    return out
