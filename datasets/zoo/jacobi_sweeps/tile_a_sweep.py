"""A launch a sweep over tiles, with five loads; the grids between may be float32."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.jacobi_sweeps.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "COLS": [64, 128, 256, 512],
    "BETWEEN": ["float32", "own"],
    "num_warps": [2, 4, 8],
}


@triton.jit
def sweep_kernel(u_ptr, f_ptr, out_ptr, M, N, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    inside = (row < M) & (col < N)
    at = row * N + col
    up = tl.load(u_ptr + at - N, mask=inside & (row > 0), other=0.0).to(tl.float32)
    down = tl.load(u_ptr + at + N, mask=inside & (row < M - 1), other=0.0).to(tl.float32)
    left = tl.load(u_ptr + at - 1, mask=inside & (col > 0), other=0.0).to(tl.float32)
    right = tl.load(u_ptr + at + 1, mask=inside & (col < N - 1), other=0.0).to(tl.float32)
    f = tl.load(f_ptr + at, mask=inside, other=0.0).to(tl.float32)
    out = 0.25 * (up + down + left + right - f)
    tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Two to 16 points a thread; no tile far wider than a row, nor other grids of float32."""
    held = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    same = params["BETWEEN"] == "own" and "float32" in str(shape["dtype"])
    return 2 <= held <= 16 and params["COLS"] < 2 * shape["N"] and not same


def kernel(u, f, sweeps, *, ROWS=4, COLS=128, BETWEEN="float32", num_warps=4):
    M, N = u.shape
    between = u.dtype if BETWEEN == "own" else torch.float32
    grids = [torch.empty((M, N), dtype=between, device=u.device) for _ in range(min(sweeps - 1, 2))]
    out = torch.empty_like(u)
    grid = (triton.cdiv(N, COLS), triton.cdiv(M, ROWS))
    for sweep in range(sweeps):
        to = out if sweep == sweeps - 1 else grids[sweep % 2]
        sweep_kernel[grid](u, f, to, M, N, ROWS, COLS, num_warps=num_warps)
        u = to
    return out
