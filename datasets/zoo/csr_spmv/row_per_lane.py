"""The scalar form: each lane walks along a row of its own, nonzero by nonzero."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.csr_spmv.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "ROWS": [32, 64, 128, 256, 512],
    "STEP": [1, 2, 4],
    "CACHE": ["", ".ca"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def lane_kernel(
    row_ptr, cols_ptr, values_ptr, x_ptr, out_ptr, M,
    ROWS: tl.constexpr, STEP: tl.constexpr, CACHE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    here = tl.load(row_ptr + row, mask=row < M, other=0)
    end = tl.load(row_ptr + row + 1, mask=row < M, other=0)
    total = tl.zeros((ROWS,), dtype=tl.float32)
    while tl.max(end - here, axis=0) > 0:
        for ahead in tl.static_range(STEP):
            live = here + ahead < end
            col = tl.load(cols_ptr + here + ahead, mask=live, other=0, cache_modifier=CACHE)
            a = tl.load(values_ptr + here + ahead, mask=live, other=0.0, cache_modifier=CACHE)
            x = tl.load(x_ptr + col, mask=live, other=0.0)
            total += a.to(tl.float32) * x.to(tl.float32)
        here += STEP
    tl.store(out_ptr + row, total.to(out_ptr.dtype.element_ty), mask=row < M)


def valid(params, shape):
    """One to eight rows a thread; long rows would take milliseconds."""
    fits = 1 <= params["ROWS"] / (32 * params["num_warps"]) <= 8
    return fits and shape["PER_ROW"] <= 64


def kernel(row_ptr, cols, values, x, *, ROWS=128, STEP=2, CACHE="", num_warps=4):
    M = row_ptr.numel() - 1
    out = torch.empty(M, dtype=x.dtype, device=x.device)
    lane_kernel[(triton.cdiv(M, ROWS),)](
        row_ptr, cols, values, x, out, M, ROWS, STEP, CACHE, num_warps=num_warps
    )
    return out
