"""Gradients of RMS normalisation: shares of rows, the weight's as partial sums added up later."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.rms_norm_backward.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PROGRAMS": [66, 132, 264, 528, 1056],
    "BLOCK_N": [16, 64, 128],
    "DX_CACHE": ["", ".cs"],
    "num_warps": [2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}


@triton.jit
def rows_kernel(
    x_ptr, weight_ptr, dy_ptr, dx_ptr, part_ptr, M, N, eps, ROWS, BLOCK: tl.constexpr,
    DX_CACHE: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, BLOCK)
    inside = cols < N
    weight = tl.load(weight_ptr + cols, mask=inside, other=0.0).to(tl.float32)
    part = tl.zeros((BLOCK,), dtype=tl.float32)
    first = tl.program_id(0).to(tl.int64) * ROWS
    for row in range(first, min(first + ROWS, M)):
        x = tl.load(x_ptr + row * N + cols, mask=inside, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * N + cols, mask=inside, other=0.0).to(tl.float32)
        scale = tl.rsqrt(tl.sum(x * x, axis=0) / N + eps)
        unit, weighted = x * scale, dy * weight
        dx = scale * (weighted - unit * (tl.sum(weighted * unit, axis=0) / N))
        dx = dx.to(dx_ptr.dtype.element_ty)
        tl.store(dx_ptr + row * N + cols, dx, mask=inside, cache_modifier=DX_CACHE)
        part += dy * unit
    tl.store(part_ptr + tl.program_id(0) * N + cols, part, mask=inside)


@triton.jit
def add_parts_kernel(part_ptr, dw_ptr, parts, N, BLOCK_N: tl.constexpr, ROWS: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((ROWS, BLOCK_N), dtype=tl.float32)
    for start in range(0, parts, ROWS):
        rows = start + tl.arange(0, ROWS)
        inside = (rows[:, None] < parts) & (cols[None, :] < N)
        total += tl.load(part_ptr + rows[:, None] * N + cols[None, :], mask=inside, other=0.0)
    tl.store(dw_ptr + cols, tl.sum(total, axis=0), mask=cols < N)


def valid(params, shape):
    """One to 32 values of each kind a thread, and a row for every program."""
    held = triton.next_power_of_2(shape["N"]) / (32 * params["num_warps"])
    return 1 <= held <= 32 and params["PROGRAMS"] <= shape["M"]


def kernel(x, weight, dy, *, PROGRAMS=132, BLOCK_N=64, DX_CACHE="", num_warps=8, num_stages=2):
    M, N = x.shape
    dx, dw = torch.empty_like(x), torch.empty(N, dtype=torch.float32, device=x.device)
    rows = triton.cdiv(M, PROGRAMS)
    programs = triton.cdiv(M, rows)
    parts = torch.empty((programs, N), dtype=torch.float32, device=x.device)
    rows_kernel[(programs,)](
        x, weight, dy, dx, parts, M, N, EPS, rows, triton.next_power_of_2(N), DX_CACHE,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    add_parts_kernel[(triton.cdiv(N, BLOCK_N),)](parts, dw, programs, N, BLOCK_N, 32)
    return dx, dw
