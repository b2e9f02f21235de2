"""Tiles of rows and columns, numbered along rows, along columns or in bands of eight rows."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.elementwise_chain.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "BLOCK": [64, 128, 256, 512, 1024],
    "ORDER": ["rows", "columns", "bands"],
    "num_warps": [2, 4, 8],
}


@triton.jit
def chain_tile_kernel(
    x_ptr, gain_ptr, shift_ptr, out_ptr, M, N,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, ORDER: tl.constexpr,
):  # fmt: skip
    down, across = tl.cdiv(M, ROWS), tl.cdiv(N, BLOCK)
    pid = tl.program_id(0)
    if ORDER == "rows":
        m, n = pid // across, pid % across
    elif ORDER == "columns":
        m, n = pid % down, pid // down
    else:
        band = pid // (8 * across)
        height = tl.minimum(down - band * 8, 8)
        m, n = band * 8 + pid % (8 * across) % height, pid % (8 * across) // height
    rows = m * ROWS + tl.arange(0, ROWS)
    cols = n * BLOCK + tl.arange(0, BLOCK)
    inside = (rows < M)[:, None] & (cols < N)[None, :]
    offsets = rows[:, None] * N + cols[None, :]
    gain = tl.load(gain_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)[None, :]
    shift = tl.load(shift_ptr + rows, mask=rows < M, other=0.0).to(tl.float32)[:, None]
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    t = tl.clamp(x * gain + shift, -3.0, 3.0)
    t = tl.sqrt(t * t + 0.5)
    u = tl.where(t > 1.0, t - 0.25 * x, t + 0.25 * x)
    u = tl.maximum(tl.abs(u), 0.125 * gain)
    tl.store(out_ptr + offsets, (u / (1.0 + u)).to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 64 elements a thread, no tile far wider than a row."""
    held = params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 64 and params["BLOCK"] < 2 * shape["N"]


def kernel(x, gain, shift, *, ROWS=4, BLOCK=128, ORDER="rows", num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(M, ROWS) * triton.cdiv(N, BLOCK),)
    chain_tile_kernel[grid](x, gain, shift, out, M, N, ROWS, BLOCK, ORDER, num_warps=num_warps)
    return out
