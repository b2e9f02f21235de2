"""Gradients of layer normalisation: groups of rows unrolled, their sums written, then reduced."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.layer_norm_backward.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "GROUP": [4, 8, 16, 32],
    "AHEAD": [1, 2, 4],
    "SUM_COLS": [32, 64, 128],
    "num_warps": [2, 4, 8, 16],
    "sum_warps": [4, 8],
}


@triton.jit
def group_kernel(
    x_ptr, w_ptr, dy_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_parts, db_parts, M, N,
    GROUP: tl.constexpr, AHEAD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    inside = cols < N
    weight = tl.load(w_ptr + cols, mask=inside, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), tl.float32)
    db = tl.zeros((BLOCK,), tl.float32)
    for i in tl.range(0, GROUP, loop_unroll_factor=AHEAD):
        row = group * GROUP + i
        mask = inside & (row < M)
        at = tl.cast(row, tl.int64) * N + cols
        dy = tl.load(dy_ptr + at, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + row, mask=row < M, other=0.0)
        rstd = tl.load(rstd_ptr + row, mask=row < M, other=0.0)
        centred = tl.where(mask, x - mean, 0.0)
        weighted = dy * weight
        offset = tl.sum(weighted, axis=0) / N
        slope = tl.sum(weighted * centred, axis=0) * rstd * rstd / N
        dx = (weighted - offset - centred * slope) * rstd
        tl.store(dx_ptr + at, dx.to(dx_ptr.dtype.element_ty), mask=mask)
        dw += dy * centred * rstd
        db += dy
    tl.store(dw_parts + group * N + cols, dw, mask=inside)
    tl.store(db_parts + group * N + cols, db, mask=inside)


@triton.jit
def reduce_kernel(dw_parts, db_parts, dw_ptr, db_ptr, groups, N, COLS: tl.constexpr):
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    rows = tl.arange(0, 32)
    dw = tl.zeros((32, COLS), tl.float32)
    db = tl.zeros((32, COLS), tl.float32)
    for top in range(0, groups, 32):
        mask = (top + rows < groups)[:, None] & (cols < N)[None, :]
        at = (top + rows)[:, None] * N + cols[None, :]
        dw += tl.load(dw_parts + at, mask=mask, other=0.0)
        db += tl.load(db_parts + at, mask=mask, other=0.0)
    tl.store(dw_ptr + cols, tl.sum(dw, axis=0), mask=cols < N)
    tl.store(db_ptr + cols, tl.sum(db, axis=0), mask=cols < N)


def valid(params, shape):
    """One to 32 values of each kind a thread; partial sums stay small beside the input."""
    held = triton.next_power_of_2(shape["N"]) / (32 * params["num_warps"])
    return 1 <= held <= 32 and params["AHEAD"] * max(held, 4) <= 64


def kernel(x, weight, dy, mean, rstd, *, GROUP=16, AHEAD=1, SUM_COLS=32, num_warps=8, sum_warps=4):
    M, N = x.shape
    groups = triton.cdiv(M, GROUP)
    dx = torch.empty_like(x)
    dw_parts, db_parts = torch.empty((2, groups, N), dtype=torch.float32, device=x.device)
    dw, db = torch.empty((2, N), dtype=torch.float32, device=x.device)
    group_kernel[(groups,)](
        x, weight, dy, mean, rstd, dx, dw_parts, db_parts, M, N, GROUP, AHEAD,
        triton.next_power_of_2(N), num_warps=num_warps,
    )  # fmt: skip
    reduce_kernel[(triton.cdiv(N, SUM_COLS),)](
        dw_parts, db_parts, dw, db, groups, N, SUM_COLS, num_warps=sum_warps
    )
    return dx, dw, db
