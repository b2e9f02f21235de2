"""Rows divided by their lengths in two loops, the second backwards to what is still cached."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.l2_normalize.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096, 8192],
    "BACKWARDS": [True, False],
    "UNROLL": [1, 2, 4],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}


@triton.jit
def two_loops_kernel(
    X, Y, n_cols, eps, BLOCK: tl.constexpr, BACKWARDS: tl.constexpr, UNROLL: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * n_cols
    blocks = tl.cdiv(n_cols, BLOCK)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for block in tl.range(0, blocks, loop_unroll_factor=UNROLL):
        idx = block * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(X + row + idx, mask=idx < n_cols, other=0.0).to(tl.float32)
        acc += v * v
    length = tl.maximum(tl.sqrt(tl.sum(acc, axis=0)), eps)
    for block in tl.range(0, blocks, loop_unroll_factor=UNROLL):
        idx = (blocks - 1 - block if BACKWARDS else block) * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(X + row + idx, mask=idx < n_cols).to(tl.float32)
        tl.store(Y + row + idx, (v / length).to(Y.dtype.element_ty), mask=idx < n_cols)


def valid(params, shape):
    """One to 32 values a thread; no block far longer than a row, no more copies than blocks."""
    block = params["BLOCK"]
    near = block <= 512 or block < 2 * shape["N"]
    unrolls = params["UNROLL"] == 1 or params["UNROLL"] * block < 2 * shape["N"]
    short = shape["N"] <= 512 * block  # a longer loop takes milliseconds
    return short and near and unrolls and 1 <= block / (32 * params["num_warps"]) <= 32


def kernel(x, *, BLOCK=512, BACKWARDS=True, UNROLL=1, num_warps=4, num_stages=2):
    M, N = x.shape
    out = torch.empty_like(x)
    two_loops_kernel[(M,)](
        x, out, N, EPS, BLOCK, BACKWARDS, UNROLL, num_warps=num_warps, num_stages=num_stages
    )
    return out
