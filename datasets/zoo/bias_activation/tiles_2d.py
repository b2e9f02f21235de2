"""Two-dimensional tiles on a two-dimensional grid; the bias is read once a tile."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.bias_activation.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "BLOCK": [64, 128, 256, 512, 1024],
    "STORE": ["", ".cs"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def bias_relu2_kernel(
    x_ptr, bias_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr, STORE: tl.constexpr
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    offsets = rows[:, None] * N + cols[None, :]
    bias = tl.load(bias_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    y = tl.maximum(x + bias[None, :], 0.0)
    y = (y * y).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + offsets, y, mask=inside, cache_modifier=STORE)


def valid(params, shape):
    """One to 64 elements a thread, no tile far wider than a row."""
    held = params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 64 and params["BLOCK"] < 4 * shape["N"]


def kernel(x, bias, *, ROWS=8, BLOCK=128, STORE="", num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(M, ROWS), triton.cdiv(N, BLOCK))
    bias_relu2_kernel[grid](x, bias, out, M, N, ROWS, BLOCK, STORE, num_warps=num_warps)
    return out
