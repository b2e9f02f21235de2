"""A band of columns walks down: three rows of sums stay in registers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.life_step.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "COLS": [128, 256, 512, 1024, 2048],
    "DOWN": [4, 16, 64],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def three(x_ptr, row, col, M, N):
    here = (row >= 0) & (row < M) & (col < N)
    left = tl.load(x_ptr + row * N + col - 1, mask=here & (col > 0), other=0).to(tl.int32)
    mid = tl.load(x_ptr + row * N + col, mask=here, other=0).to(tl.int32)
    right = tl.load(x_ptr + row * N + col + 1, mask=here & (col < N - 1), other=0).to(tl.int32)
    return left + mid + right, mid


@triton.jit
def life_kernel(x_ptr, out_ptr, M, N, DOWN: tl.constexpr, COLS: tl.constexpr):
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    first = tl.program_id(1) * DOWN
    above, _ = three(x_ptr, first - 1, col, M, N)
    here, cell = three(x_ptr, first, col, M, N)
    for row in range(first, min(first + DOWN, M)):
        below, following = three(x_ptr, row + 1, col, M, N)
        around = above + here + below - cell
        lives = (around == 3) | ((around == 2) & (cell != 0))
        tl.store(out_ptr + row * N + col, lives.to(out_ptr.dtype.element_ty), mask=col < N)
        above = here
        here = below
        cell = following


def valid(params, shape):
    """One to 16 cells of a row a thread; no band far wider than a row."""
    held = params["COLS"] / (32 * params["num_warps"])
    return 1 <= held <= 16 and params["COLS"] < 2 * shape["N"]


def kernel(x, *, COLS=512, DOWN=16, num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(N, COLS), triton.cdiv(M, DOWN))
    life_kernel[grid](x, out, M, N, DOWN, COLS, num_warps=num_warps)
    return out
