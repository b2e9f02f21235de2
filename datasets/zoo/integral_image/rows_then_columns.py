"""A kernel scans rows chunk by chunk; another one scans columns of the result in its place."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.integral_image.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "CHUNK": [256, 512, 1024],
    "STEPS": [8, 32, 64],
    "COLS": [16, 32, 64],
    "num_warps": [2, 4],
}


@triton.jit
def row_kernel(x_ptr, out_ptr, W, CHUNK: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * W
    i = tl.arange(0, CHUNK)
    carry = 0.0
    for start in range(0, W, CHUNK):
        inside = start + i < W
        x = tl.load(x_ptr + base + start + i, mask=inside, other=0.0).to(tl.float32)
        tl.store(out_ptr + base + start + i, tl.cumsum(x, axis=0) + carry, mask=inside)
        carry += tl.sum(x, axis=0)


@triton.jit
def column_kernel(out_ptr, H, W, STEPS: tl.constexpr, COLS: tl.constexpr):
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    out_ptr += tl.program_id(1).to(tl.int64) * H * W
    carry = tl.zeros((1, COLS), dtype=tl.float32)
    for start in range(0, H, STEPS):
        rows = start + tl.arange(0, STEPS)[:, None]
        inside = (rows < H) & (cols < W)
        x = tl.load(out_ptr + rows * W + cols, mask=inside, other=0.0)
        tl.store(out_ptr + rows * W + cols, tl.cumsum(x, axis=0) + carry, mask=inside)
        carry += tl.sum(x, axis=0, keep_dims=True)


def valid(params, shape):
    """Two to 16 elements a thread and step, no chunk far longer than a row."""
    threads = 32 * params["num_warps"]
    rows = params["CHUNK"] < 4 * shape["W"] and 2 <= params["CHUNK"] / threads <= 16
    return rows and 2 <= params["STEPS"] * params["COLS"] / threads <= 16


def kernel(x, *, CHUNK=256, STEPS=32, COLS=16, num_warps=2):
    B, H, W = x.shape
    out = torch.empty((B, H, W), dtype=torch.float32, device=x.device)
    row_kernel[(B * H,)](x, out, W, CHUNK, num_warps=num_warps)
    column_kernel[(triton.cdiv(W, COLS), B)](out, H, W, STEPS, COLS, num_warps=num_warps)
    return out
