"""Tiles of three axes: several matrices a program, reduced along the second axis."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.middle_sum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BATCHES": [1, 2, 4, 8],
    "ROWS": [1, 2, 4, 8, 16],
    "COLS": [16, 32, 64, 128],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def middle_sum_cube_kernel(
    x_ptr, out_ptr, B, M, N, BATCHES: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr
):
    b = tl.program_id(0) * BATCHES + tl.arange(0, BATCHES)
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    outer = b[:, None, None] * (M * N) + cols[None, None, :]
    edge = (b < B)[:, None, None] & (cols < N)[None, None, :]
    total = tl.zeros((BATCHES, COLS), dtype=tl.float32)
    for start in range(0, M, ROWS):
        rows = start + tl.arange(0, ROWS)[None, :, None]
        x = tl.load(x_ptr + outer + rows * N, mask=edge & (rows < M), other=0.0)
        total += tl.sum(x.to(tl.float32), axis=1)
    place = b[:, None] * N + cols[None, :]
    tl.store(out_ptr + place, total, mask=(b < B)[:, None] & (cols < N)[None, :])


def valid(params, shape):
    """One to 64 values a thread, tiles within the tensor, at most 2048 steps."""
    tile = params["BATCHES"] * params["ROWS"] * params["COLS"]
    inside = params["ROWS"] < 2 * shape["M"] and params["COLS"] < 2 * shape["N"]
    steps = shape["M"] / params["ROWS"] <= 2048 and params["BATCHES"] <= shape["B"]
    return 1 <= tile / (32 * params["num_warps"]) <= 64 and inside and steps


def kernel(x, *, BATCHES=1, ROWS=8, COLS=64, num_warps=4):
    B, M, N = x.shape
    out = torch.empty((B, N), dtype=torch.float32, device=x.device)
    middle_sum_cube_kernel[(triton.cdiv(B, BATCHES), triton.cdiv(N, COLS))](
        x, out, B, M, N, BATCHES, ROWS, COLS, num_warps=num_warps
    )
    return out
