"""Gradients of RMS normalisation: tiles of rows, the weight's gradient added with atomics."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.rms_norm_backward.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8],
    "TILES": [2, 4, 8, 16, 32],
    "SEMANTICS": ["relaxed", "acq_rel"],
    "num_warps": [2, 4, 8, 16],
    "num_stages": [1, 2],
}


@triton.jit
def backward_kernel(
    X, G, DY, DX, DG, M, N, eps, TILES, ROWS: tl.constexpr, COLS: tl.constexpr, SEM: tl.constexpr
):
    n = tl.arange(0, COLS)[None, :]
    g = tl.load(G + n, mask=n < N, other=0.0).to(tl.float32)
    acc = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for tile in range(TILES):
        m = ((tl.program_id(0) * TILES + tile) * ROWS + tl.arange(0, ROWS))[:, None]
        at = m.to(tl.int64) * N + n
        mask = (m < M) & (n < N)
        x = tl.load(X + at, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(DY + at, mask=mask, other=0.0).to(tl.float32)
        r = tl.rsqrt(tl.sum(x * x, axis=1, keep_dims=True) / N + eps)
        dot = tl.sum(x * dy * g, axis=1, keep_dims=True) / N
        dx = r * (dy * g - x * (r * r * dot))
        tl.store(DX + at, dx.to(DX.dtype.element_ty), mask=mask)
        acc += dy * x * r
    cols = tl.arange(0, COLS)
    tl.atomic_add(DG + cols, tl.sum(acc, axis=0), mask=cols < N, sem=SEM)


def valid(params, shape):
    """One to 32 values of each kind a thread, at least 16 programs."""
    tile = params["ROWS"] * triton.next_power_of_2(shape["N"])
    enough = 16 * params["ROWS"] * params["TILES"] <= max(shape["M"], 64)
    return enough and tile <= 16384 and 1 <= tile / (32 * params["num_warps"]) <= 32


def kernel(x, weight, dy, *, ROWS=1, TILES=8, SEMANTICS="relaxed", num_warps=8, num_stages=1):
    M, N = x.shape
    dx, dw = torch.empty_like(x), torch.zeros(N, dtype=torch.float32, device=x.device)
    backward_kernel[(triton.cdiv(M, ROWS * TILES),)](
        x, weight, dy, dx, dw, M, N, EPS, TILES, ROWS, triton.next_power_of_2(N), SEMANTICS,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return dx, dw
