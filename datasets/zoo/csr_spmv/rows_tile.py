"""Several rows a program as a tile of rows by nonzeros, as many steps as the longest row wants."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.csr_spmv.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "ROWS": [2, 4, 8, 16, 32, 64],
    "WIDTH": [4, 8, 16, 32, 64, 128],
    "EVICT": ["", "evict_last"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def rows_kernel(
    row_ptr, cols_ptr, values_ptr, x_ptr, out_ptr, M,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, EVICT: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    first = tl.load(row_ptr + rows, mask=rows < M, other=0)
    last = tl.load(row_ptr + rows + 1, mask=rows < M, other=0)
    i = first[:, None] + tl.arange(0, WIDTH)[None, :]
    acc = tl.zeros((ROWS, WIDTH), dtype=tl.float32)
    longest = tl.max(last - first, axis=0)
    for _ in range(0, longest, WIDTH):
        inside = i < last[:, None]
        cols = tl.load(cols_ptr + i, mask=inside, other=0)
        values = tl.load(values_ptr + i, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + cols, mask=inside, other=0.0, eviction_policy=EVICT)
        acc += values * x.to(tl.float32)
        i += WIDTH
    tl.store(out_ptr + rows, tl.sum(acc, axis=1).to(out_ptr.dtype.element_ty), mask=rows < M)


def valid(params, shape):
    """One to 16 nonzeros a thread; no row is far shorter than a step."""
    rows, width = params["ROWS"], params["WIDTH"]
    if width > 16 * shape["PER_ROW"] or width * 128 < shape["PER_ROW"]:
        return False
    return 1 <= rows * width / (32 * params["num_warps"]) <= 16


def kernel(row_ptr, cols, values, x, *, ROWS=8, WIDTH=32, EVICT="", num_warps=2):
    M = row_ptr.numel() - 1
    out = torch.empty(M, dtype=x.dtype, device=x.device)
    rows_kernel[(triton.cdiv(M, ROWS),)](
        row_ptr, cols, values, x, out, M, ROWS, WIDTH, EVICT, num_warps=num_warps
    )
    return out
