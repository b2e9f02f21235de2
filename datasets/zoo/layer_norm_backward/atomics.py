"""Gradients of layer normalisation: tiles of rows, whose column sums are added with atomics."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.layer_norm_backward.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8],
    "TILES": [4, 8, 16, 32, 64],
    "SEMANTICS": ["relaxed", "acq_rel"],
    "num_warps": [2, 4, 8, 16],
    "num_stages": [1, 2],
}


@triton.jit
def backward_kernel(
    X, W, DY, MEAN, RSTD, DX, DW, DB, M, N, ROWS: tl.constexpr, TILES: tl.constexpr,
    COLS: tl.constexpr, SEM: tl.constexpr,
):  # fmt: skip
    c = tl.arange(0, COLS)
    w = tl.load(W + c, mask=c < N, other=0.0).to(tl.float32)[None, :]
    dw = tl.zeros((COLS,), tl.float32)
    db = tl.zeros((COLS,), tl.float32)
    for tile in range(TILES):
        r = (tl.program_id(0) * TILES + tile) * ROWS + tl.arange(0, ROWS)
        keep = (r < M)[:, None] & (c < N)[None, :]
        at = r.to(tl.int64)[:, None] * N + c[None, :]
        mean = tl.load(MEAN + r, mask=r < M, other=0.0)[:, None]
        rstd = tl.load(RSTD + r, mask=r < M, other=0.0)[:, None]
        x = tl.load(X + at, mask=keep, other=0.0).to(tl.float32)
        dy = tl.load(DY + at, mask=keep, other=0.0).to(tl.float32)
        u = tl.where(keep, (x - mean) * rstd, 0.0)
        g = dy * w
        c1 = tl.sum(g * u, axis=1)[:, None] / N
        c2 = tl.sum(g, axis=1)[:, None] / N
        tl.store(DX + at, ((g - u * c1 - c2) * rstd).to(DX.dtype.element_ty), mask=keep)
        dw += tl.sum(dy * u, axis=0)
        db += tl.sum(dy, axis=0)
    tl.atomic_add(DW + c, dw, mask=c < N, sem=SEM)
    tl.atomic_add(DB + c, db, mask=c < N, sem=SEM)


def valid(params, shape):
    """One to 32 values of each kind a thread, at least 8 programs."""
    tile = params["ROWS"] * triton.next_power_of_2(shape["N"])
    enough = 8 * params["ROWS"] * params["TILES"] <= max(shape["M"], 64)
    return enough and 1 <= tile / (32 * params["num_warps"]) <= 32 and tile <= 16384


def kernel(
    x, weight, dy, mean, rstd, *, ROWS=1, TILES=16, SEMANTICS="relaxed", num_warps=8, num_stages=1
):
    M, N = x.shape
    dx = torch.empty_like(x)
    sums = torch.zeros((2, N), dtype=torch.float32, device=x.device)
    backward_kernel[(triton.cdiv(M, ROWS * TILES),)](
        x, weight, dy, mean, rstd, dx, sums[0], sums[1], M, N, ROWS, TILES,
        triton.next_power_of_2(N), SEMANTICS, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return dx, sums[0], sums[1]
