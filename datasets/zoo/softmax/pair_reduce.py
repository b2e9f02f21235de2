"""Softmax whose (peak, sum) pairs are merged by one reduction with an operator of its own."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8],
    "BLOCK": [64, 128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}


@triton.jit
def merge(peak_a, sum_a, peak_b, sum_b):
    peak = tl.maximum(peak_a, peak_b)
    return peak, sum_a * tl.exp(peak_a - peak) + sum_b * tl.exp(peak_b - peak)


@triton.jit
def pair_reduce_kernel(x_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    base = rows.to(tl.int64)[:, None] * N
    alive = rows[:, None] < M
    peak = tl.full((ROWS,), -1e30, dtype=tl.float32)
    total = tl.zeros((ROWS,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)[None, :]
        x = tl.load(x_ptr + base + cols, mask=alive & (cols < N), other=-1e30).to(tl.float32)
        ones = tl.where(cols < N, tl.full(x.shape, 1.0, tl.float32), 0.0)
        block_peak, block_total = tl.reduce((x, ones), 1, merge)
        peak, total = merge(peak, total, block_peak, block_total)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)[None, :]
        inside = alive & (cols < N)
        x = tl.load(x_ptr + base + cols, mask=inside).to(tl.float32)
        out = tl.exp(x - peak[:, None]) / total[:, None]
        tl.store(out_ptr + base + cols, out.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 32 pairs a thread; a row by itself unless rows are short."""
    held = params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"])
    near = params["BLOCK"] <= 256 or params["BLOCK"] < 2 * shape["N"]
    short = shape["N"] <= 512 * params["BLOCK"]  # a longer loop takes milliseconds
    return short and 1 <= held <= 32 and near and (params["ROWS"] == 1 or shape["N"] <= 8192)


def kernel(x, *, ROWS=1, BLOCK=256, num_warps=4, num_stages=3):
    M, N = x.shape
    out = torch.empty_like(x)
    pair_reduce_kernel[(triton.cdiv(M, ROWS),)](
        x, out, M, N, ROWS, BLOCK, num_warps=num_warps, num_stages=num_stages
    )
    return out
