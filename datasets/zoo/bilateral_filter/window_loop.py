"""Tiles of pixels; one neighbour after another is loaded for all of them."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.bilateral_filter.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8],
    "COLS": [32, 64, 128],
    "UNROLLED": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def filter_kernel(
    x_ptr, out_ptr, H, W, per_distance, per_difference,
    R: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, UNROLLED: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    image = tl.program_id(2) * H * W
    inside = (row < H) & (col < W)
    here = tl.load(x_ptr + image + row * W + col, mask=inside, other=0.0).to(tl.float32)
    total = tl.zeros((ROWS, COLS), dtype=tl.float32)
    weights = tl.zeros((ROWS, COLS), dtype=tl.float32)
    side: tl.constexpr = 2 * R + 1
    if UNROLLED:
        for i in tl.static_range(side):
            line = image + tl.minimum(tl.maximum(row + i - R, 0), H - 1) * W
            for j in tl.static_range(side):
                at = line + tl.minimum(tl.maximum(col + j - R, 0), W - 1)
                there = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
                apart = per_distance * ((i - R) * (i - R) + (j - R) * (j - R))
                weight = tl.exp(-per_difference * (there - here) * (there - here) - apart)
                total += weight * there
                weights += weight
    else:
        for k in range(side * side):
            i = k // side - R
            j = k % side - R
            line = image + tl.minimum(tl.maximum(row + i, 0), H - 1) * W
            at = line + tl.minimum(tl.maximum(col + j, 0), W - 1)
            there = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
            apart = per_distance * (i * i + j * j)
            weight = tl.exp(-per_difference * (there - here) * (there - here) - apart)
            total += weight * there
            weights += weight
    out = (total / weights).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + image + row * W + col, out, mask=inside)


def valid(params, shape):
    """One to eight pixels a thread; no tile far wider than a row."""
    held = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    return 1 <= held <= 8 and params["COLS"] < 2 * shape["W"]


def kernel(x, reach, per_distance, per_difference, *, ROWS=4, COLS=64, UNROLLED=True, num_warps=4):
    B, H, W = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(W, COLS), triton.cdiv(H, ROWS), B)
    filter_kernel[grid](
        x, out, H, W, per_distance, per_difference, reach, ROWS, COLS, UNROLLED,
        num_warps=num_warps,
    )  # fmt: skip
    return out
