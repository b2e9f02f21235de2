"""Columns of all matrices as one axis: a program's columns may belong to several matrices."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.middle_sum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "COLS": [32, 64, 128, 256, 512, 1024],
    "UNROLL": [1, 2, 4, 8, 16],
    "CACHE": ["", ".cg"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def middle_sum_flat_kernel(
    x_ptr, out_ptr, columns, M, N,
    COLS: tl.constexpr, UNROLL: tl.constexpr, CACHE: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(0) * COLS + tl.arange(0, COLS)
    source = x_ptr + (column // N).to(tl.int64) * M * N + column % N
    total = tl.zeros((COLS,), dtype=tl.float32)
    for start in range(0, M, UNROLL):
        for k in tl.static_range(UNROLL):
            inside = (column < columns) & (start + k < M)
            x = tl.load(source + k * N, mask=inside, other=0.0, cache_modifier=CACHE)
            total += x.to(tl.float32)
        source += UNROLL * N
    tl.store(out_ptr + column, total, mask=column < columns)


def valid(params, shape):
    """One to 16 columns a thread, and a middle axis of at most 2048."""
    return 1 <= params["COLS"] / (32 * params["num_warps"]) <= 16 and shape["M"] <= 2048


def kernel(x, *, COLS=128, UNROLL=8, CACHE="", num_warps=2):
    B, M, N = x.shape
    out = torch.empty((B, N), dtype=torch.float32, device=x.device)
    middle_sum_flat_kernel[(triton.cdiv(B * N, COLS),)](
        x, out, B * N, M, N, COLS, UNROLL, CACHE, num_warps=num_warps
    )
    return out
