"""Gradients of layer normalisation: a launch over rows for dx, one over columns for the sums."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.layer_norm_backward.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [256, 512, 1024, 2048],
    "TILE_M": [16, 32, 64],
    "TILE_N": [32, 64, 128],
    "SPLITS": [1, 8, 32],
    "num_warps": [4, 8],
    "num_stages": [1, 3],
}


@triton.jit
def rows_kernel(x_ptr, w_ptr, dy_ptr, mean_ptr, rstd_ptr, dx_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    base = row.to(tl.int64) * n_cols
    mean, rstd = tl.load(mean_ptr + row), tl.load(rstd_ptr + row)
    dot = tl.zeros((BLOCK,), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + base + cols, mask=mask, other=0.0).to(tl.float32)
        g = tl.load(dy_ptr + base + cols, mask=mask, other=0.0).to(tl.float32)
        g *= tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        dot += g * (x - mean)
        total += g
    along = tl.sum(dot, axis=0) * rstd / n_cols
    offset = tl.sum(total, axis=0) / n_cols
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + base + cols, mask=mask, other=0.0).to(tl.float32)
        g = tl.load(dy_ptr + base + cols, mask=mask, other=0.0).to(tl.float32)
        g *= tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        dx = rstd * (g - (x - mean) * rstd * along - offset)
        tl.store(dx_ptr + base + cols, dx.to(dx_ptr.dtype.element_ty), mask=mask)


@triton.jit
def columns_kernel(
    x_ptr, dy_ptr, mean_ptr, rstd_ptr, dw_ptr, db_ptr, M, N, SPLITS: tl.constexpr,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr,
):  # fmt: skip
    cols = tl.program_id(0) * TILE_N + tl.arange(0, TILE_N)
    dw = tl.zeros((TILE_M, TILE_N), tl.float32)
    db = tl.zeros((TILE_M, TILE_N), tl.float32)
    for top in range(tl.program_id(1) * TILE_M, M, SPLITS * TILE_M):
        rows = top + tl.arange(0, TILE_M)
        mask = (rows < M)[:, None] & (cols < N)[None, :]
        at = rows.to(tl.int64)[:, None] * N + cols[None, :]
        mean = tl.load(mean_ptr + rows, mask=rows < M, other=0.0)[:, None]
        rstd = tl.load(rstd_ptr + rows, mask=rows < M, other=0.0)[:, None]
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + at, mask=mask, other=0.0).to(tl.float32)
        dw += dy * (x - mean) * rstd
        db += dy
    if SPLITS == 1:
        tl.store(dw_ptr + cols, tl.sum(dw, axis=0), mask=cols < N)
        tl.store(db_ptr + cols, tl.sum(db, axis=0), mask=cols < N)
    else:
        tl.atomic_add(dw_ptr + cols, tl.sum(dw, axis=0), mask=cols < N)
        tl.atomic_add(db_ptr + cols, tl.sum(db, axis=0), mask=cols < N)


def valid(params, shape):
    """Two to 32 values a thread, blocks not far longer than rows, a tile for every split."""
    threads = 32 * params["num_warps"]
    near = params["BLOCK"] < 2 * shape["N"] and params["SPLITS"] * params["TILE_M"] <= shape["M"]
    tile = params["TILE_M"] * params["TILE_N"]
    # One split reads a column strip with few programs: short matrices only.
    enough = params["SPLITS"] > 1 or shape["M"] <= 4096
    return near and enough and params["BLOCK"] >= threads and 2 <= tile / threads <= 32


def kernel(
    x, weight, dy, mean, rstd, *, BLOCK=512, TILE_M=16, TILE_N=64, SPLITS=32, num_warps=4,
    num_stages=3,
):  # fmt: skip
    M, N = x.shape
    dx = torch.empty_like(x)
    make = torch.empty if SPLITS == 1 else torch.zeros
    dw, db = make((2, N), dtype=torch.float32, device=x.device)
    launch = {"num_warps": num_warps, "num_stages": num_stages}
    rows_kernel[(M,)](x, weight, dy, mean, rstd, dx, N, BLOCK, **launch)
    grid = (triton.cdiv(N, TILE_N), SPLITS)
    columns_kernel[grid](x, dy, mean, rstd, dw, db, M, N, SPLITS, TILE_M, TILE_N, **launch)
    return dx, dw, db
