"""Tiles of several rows and some of their columns."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gather_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "BLOCK": [32, 64, 128, 256, 512, 1024],
    "STORE": ["", ".cs"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def gather_kernel(
    x_ptr, index_ptr, weight_ptr, out_ptr, T, D,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, STORE: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (rows[:, None] < T) & (cols[None, :] < D)
    index = tl.load(index_ptr + rows, mask=rows < T, other=0)
    weight = tl.load(weight_ptr + rows, mask=rows < T, other=0.0)
    x = tl.load(x_ptr + index[:, None] * D + cols[None, :], mask=inside, other=0.0)
    y = (x.to(tl.float32) * weight[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + rows[:, None] * D + cols[None, :], y, mask=inside, cache_modifier=STORE)


def valid(params, shape):
    """One to 64 elements a thread, and no block far longer than a row."""
    held = params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 64 and params["BLOCK"] < 2 * shape["D"]


def kernel(x, index, weight, *, ROWS=4, BLOCK=128, STORE="", num_warps=4):
    T, D = index.shape[0], x.shape[1]
    out = torch.empty((T, D), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(T, ROWS), triton.cdiv(D, BLOCK))
    gather_kernel[grid](x, index, weight, out, T, D, ROWS, BLOCK, STORE, num_warps=num_warps)
    return out
