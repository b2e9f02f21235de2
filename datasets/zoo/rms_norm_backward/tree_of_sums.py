"""Gradients of RMS normalisation: groups of rows unrolled, partial sums added in a tree."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.rms_norm_backward.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "GROUP": [2, 4, 8, 16, 32],
    "FAN_IN": [8, 16, 32, 64],
    "KEEP_WEIGHT": [True, False],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def group_kernel(
    x_ptr, w_ptr, dy_ptr, dx_ptr, part_ptr, M, N, eps, GROUP: tl.constexpr, BLOCK: tl.constexpr,
    KEEP_WEIGHT: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, BLOCK)
    inside = cols < N
    if KEEP_WEIGHT:
        w = tl.load(w_ptr + cols, mask=inside, other=0.0).to(tl.float32)
    part = tl.zeros((BLOCK,), tl.float32)
    for i in tl.static_range(GROUP):
        row = tl.program_id(0) * GROUP + i
        at = row.to(tl.int64) * N + cols
        mask = inside & (row < M)
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + at, mask=mask, other=0.0).to(tl.float32)
        if not KEEP_WEIGHT:
            w = tl.load(w_ptr + cols, mask=inside, other=0.0).to(tl.float32)
        rstd = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / N + eps)
        x *= rstd
        part += dy * x
        dot = tl.sum(dy * w * x, axis=0) / N
        tl.store(dx_ptr + at, ((dy * w - x * dot) * rstd).to(dx_ptr.dtype.element_ty), mask=mask)
    tl.store(part_ptr + tl.program_id(0) * N + cols, part, mask=inside)


@triton.jit
def fan_in_kernel(in_ptr, out_ptr, rows, N, FAN_IN: tl.constexpr, COLS: tl.constexpr):
    r = tl.program_id(1) * FAN_IN + tl.arange(0, FAN_IN)
    c = tl.program_id(0) * COLS + tl.arange(0, COLS)
    mask = (r < rows)[:, None] & (c < N)[None, :]
    parts = tl.load(in_ptr + r[:, None] * N + c[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + tl.program_id(1) * N + c, tl.sum(parts, axis=0), mask=c < N)


def valid(params, shape):
    """One to 32 values of each kind a thread; a tree of three launches at most."""
    held = triton.next_power_of_2(shape["N"]) / (32 * params["num_warps"])
    parts = triton.cdiv(shape["M"], params["GROUP"])
    return 1 <= held <= 32 and parts <= params["FAN_IN"] ** 3


def kernel(x, weight, dy, *, GROUP=8, FAN_IN=32, KEEP_WEIGHT=True, num_warps=8):
    M, N = x.shape
    dx = torch.empty_like(x)
    rows = triton.cdiv(M, GROUP)
    parts = torch.empty((rows, N), dtype=torch.float32, device=x.device)
    group_kernel[(rows,)](
        x, weight, dy, dx, parts, M, N, EPS, GROUP, triton.next_power_of_2(N), KEEP_WEIGHT,
        num_warps=num_warps,
    )  # fmt: skip
    while rows > 1:
        fewer = triton.cdiv(rows, FAN_IN)
        sums = torch.empty((fewer, N), dtype=torch.float32, device=x.device)
        fan_in_kernel[(triton.cdiv(N, 64), fewer)](parts, sums, rows, N, FAN_IN, 64, num_warps=4)
        parts, rows = sums, fewer
    return dx, parts[0]
