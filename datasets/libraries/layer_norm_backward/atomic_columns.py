"""Tiles of rows whose sums for weight and bias are added atomically to one row."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.layer_norm_backward import problem
from solkit.datasets.zoo.layer_norm_backward.problem import TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
KIND = "norm"
SHAPES = [problem.SHAPES[place] for place in (2, 3, 5)]
SPACE = {"BLOCK_ROWS": [1, 2, 4, 8, 16], "num_warps": [2, 4, 8, 16]}


@triton.jit
def _layer_norm_bwd(
    DX, DY, DW, DB, X, W, Mean, Rstd, stride, M, N, BLOCK_ROWS: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    cols = tl.arange(0, BLOCK_SIZE_N)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    offs = rows[:, None] * stride + cols[None, :]
    x = tl.load(X + offs, mask=mask, other=0).to(tl.float32)
    dy = tl.load(DY + offs, mask=mask, other=0).to(tl.float32)
    w = tl.load(W + cols, mask=cols < N, other=0).to(tl.float32)
    mean = tl.load(Mean + rows, mask=rows < M, other=0)
    rstd = tl.load(Rstd + rows, mask=rows < M, other=0)
    xhat = tl.where(mask, (x - mean[:, None]) * rstd[:, None], 0.0)
    wdy = w[None, :] * dy
    c1 = tl.sum(xhat * wdy, axis=1) / N
    c2 = tl.sum(wdy, axis=1) / N
    dx = (wdy - (xhat * c1[:, None] + c2[:, None])) * rstd[:, None]
    tl.store(DX + offs, dx.to(DX.dtype.element_ty), mask=mask)
    tl.atomic_add(DW + cols, tl.sum(dy * xhat, axis=0), mask=cols < N)
    tl.atomic_add(DB + cols, tl.sum(dy, axis=0), mask=cols < N)


def valid(params, shape):
    tile = params["BLOCK_ROWS"] * triton.next_power_of_2(shape["N"])
    return 4 <= tile / (32 * params["num_warps"]) <= 128


def kernel(x, weight, dy, mean, rstd, *, BLOCK_ROWS=4, num_warps=8):
    M, N = x.shape
    dx = torch.empty_like(dy)
    dw, db = (torch.zeros(N, dtype=torch.float32, device=x.device) for _ in range(2))
    _layer_norm_bwd[(triton.cdiv(M, BLOCK_ROWS),)](
        dx, dy, dw, db, x, weight, mean, rstd, x.stride(0), M, N, BLOCK_ROWS=BLOCK_ROWS,
        BLOCK_SIZE_N=triton.next_power_of_2(N), num_warps=num_warps,
    )  # fmt: skip
    return dx, dw, db
