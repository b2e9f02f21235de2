"""Gradients of layer normalisation: shares of rows, whose sums a second launch adds up."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.layer_norm_backward.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PROGRAMS": [66, 132, 264, 528, 1056],
    "STRIDED": [True, False],
    "SUM_COLS": [32, 128],
    "SUM_ROWS": [16, 64],
    "num_warps": [2, 4, 8, 16],
    "num_stages": [1, 2],
}


@triton.jit
def rows_kernel(
    x_ptr, weight_ptr, dy_ptr, mean_ptr, rstd_ptr, dx_ptr, parts_ptr, M, N,
    STRIDED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    dweight = tl.zeros((BLOCK,), dtype=tl.float32)
    dbias = tl.zeros((BLOCK,), dtype=tl.float32)
    pid, programs = tl.program_id(0).to(tl.int64), tl.num_programs(0)
    first = pid if STRIDED else pid * M // programs
    last = M if STRIDED else (pid + 1) * M // programs
    for row in tl.range(first, last, programs if STRIDED else 1):
        x = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        unit = tl.where(mask, (x - tl.load(mean_ptr + row)) * rstd, 0.0)
        weighted = dy * weight
        along = tl.sum(weighted * unit, axis=0) / N
        dx = rstd * (weighted - unit * along - tl.sum(weighted, axis=0) / N)
        tl.store(dx_ptr + row * N + cols, dx.to(dx_ptr.dtype.element_ty), mask=mask)
        dweight += dy * unit
        dbias += dy
    tl.store(parts_ptr + pid * N + cols, dweight, mask=mask)
    tl.store(parts_ptr + (programs + pid) * N + cols, dbias, mask=mask)


@triton.jit
def sum_kernel(parts_ptr, out_ptr, parts, N, ROWS: tl.constexpr, COLS: tl.constexpr):
    which = tl.program_id(1)  # 0: the weight, 1: the bias
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    total = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for start in range(0, parts, ROWS):
        rows = start + tl.arange(0, ROWS)
        mask = (rows < parts)[:, None] & (cols < N)[None, :]
        at = (which * parts + rows)[:, None] * N + cols[None, :]
        total += tl.load(parts_ptr + at, mask=mask, other=0.0)
    tl.store(out_ptr + which * N + cols, tl.sum(total, axis=0), mask=cols < N)


def valid(params, shape):
    """One to 32 values of each kind a thread, and rows for every program."""
    held = triton.next_power_of_2(shape["N"]) / (32 * params["num_warps"])
    return 1 <= held <= 32 and params["PROGRAMS"] <= shape["M"]


def kernel(
    x, weight, dy, mean, rstd, *, PROGRAMS=264, STRIDED=True, SUM_COLS=32, SUM_ROWS=64,
    num_warps=8, num_stages=1,
):  # fmt: skip
    M, N = x.shape
    programs = min(PROGRAMS, M)
    dx = torch.empty_like(x)
    parts = torch.empty((2, programs, N), dtype=torch.float32, device=x.device)
    sums = torch.empty((2, N), dtype=torch.float32, device=x.device)
    rows_kernel[(programs,)](
        x, weight, dy, mean, rstd, dx, parts, M, N, STRIDED, triton.next_power_of_2(N),
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    sum_kernel[(triton.cdiv(N, SUM_COLS), 2)](parts, sums, programs, N, SUM_ROWS, SUM_COLS)
    return dx, sums[0], sums[1]
