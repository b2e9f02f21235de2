"""Gradient of softmax in two loops over long rows: the dot product, then the gradient."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.softmax_backward.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "BACKWARDS": [False, True],
    "SCALAR_DOT": [False, True],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 4],
}


@triton.jit
def two_loops_kernel(
    y_ptr, dy_ptr, dx_ptr, N, BLOCK: tl.constexpr, BACKWARDS: tl.constexpr,
    SCALAR_DOT: tl.constexpr,
):  # fmt: skip
    base = tl.program_id(0).to(tl.int64) * N
    lanes = tl.arange(0, BLOCK)
    acc = 0.0 if SCALAR_DOT else tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        mask = start + lanes < N
        y = tl.load(y_ptr + base + start + lanes, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + base + start + lanes, mask=mask, other=0.0).to(tl.float32)
        acc += tl.sum(y * dy, axis=0) if SCALAR_DOT else y * dy
    dot = acc if SCALAR_DOT else tl.sum(acc, axis=0)
    last = (tl.cdiv(N, BLOCK) - 1) * BLOCK
    for start in range(0, N, BLOCK):
        cols = (last - start if BACKWARDS else start) + lanes
        y = tl.load(y_ptr + base + cols, mask=cols < N, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + base + cols, mask=cols < N, other=0.0).to(tl.float32)
        tl.store(dx_ptr + base + cols, y * (dy - dot), mask=cols < N)


def valid(params, shape):
    """One to 32 values of each input a thread, and no block far longer than a row."""
    block = params["BLOCK"]
    near = block <= 256 or block < 2 * shape["N"]
    short = shape["N"] <= 512 * block  # a longer loop takes milliseconds
    return near and short and 1 <= block / (32 * params["num_warps"]) <= 32


def kernel(y, dy, *, BLOCK=256, BACKWARDS=False, SCALAR_DOT=False, num_warps=4, num_stages=2):
    M, N = y.shape
    dx = torch.empty((M, N), dtype=torch.float32, device=y.device)
    two_loops_kernel[(M,)](
        y, dy, dx, N, BLOCK, BACKWARDS, SCALAR_DOT, num_warps=num_warps, num_stages=num_stages
    )
    return dx
