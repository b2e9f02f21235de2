"""Softmax as the textbook has it: a loop for the peak, one for the sum, one to divide."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [64, 128, 256, 512, 1024, 2048, 4096, 8192],
    "LOG_OF_SUM": [False, True],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3, 5],
}


@triton.jit
def three_pass_kernel(input_ptr, output_ptr, n_cols, BLOCK: tl.constexpr, LOG_OF_SUM: tl.constexpr):
    row_idx = tl.program_id(0).to(tl.int64)
    row_in = input_ptr + row_idx * n_cols
    row_out = output_ptr + row_idx * n_cols

    row_max = float("-inf")
    for off in range(0, n_cols, BLOCK):
        idx = off + tl.arange(0, BLOCK)
        val = tl.load(row_in + idx, mask=idx < n_cols, other=float("-inf")).to(tl.float32)
        row_max = tl.maximum(row_max, tl.max(val, axis=0))

    denom = 0.0
    for off in range(0, n_cols, BLOCK):
        idx = off + tl.arange(0, BLOCK)
        val = tl.load(row_in + idx, mask=idx < n_cols, other=float("-inf")).to(tl.float32)
        denom += tl.sum(tl.exp(val - row_max), axis=0)

    for off in range(0, n_cols, BLOCK):
        idx = off + tl.arange(0, BLOCK)
        val = tl.load(row_in + idx, mask=idx < n_cols).to(tl.float32)
        shifted = val - row_max
        res = tl.exp(shifted - tl.log(denom)) if LOG_OF_SUM else tl.exp(shifted) / denom
        tl.store(row_out + idx, res.to(output_ptr.dtype.element_ty), mask=idx < n_cols)


def valid(params, shape):
    """One to 64 values a thread, and no block far longer than a row."""
    block = params["BLOCK"]
    held = block / (32 * params["num_warps"])
    short = shape["N"] <= 512 * block  # a longer loop takes milliseconds
    return short and 1 <= held <= 64 and (block <= 256 or block < 2 * shape["N"])


def kernel(x, *, BLOCK=256, LOG_OF_SUM=False, num_warps=4, num_stages=2):
    n_rows, n_cols = x.shape
    out = torch.empty_like(x)
    three_pass_kernel[(n_rows,)](
        x, out, n_cols, BLOCK, LOG_OF_SUM, num_warps=num_warps, num_stages=num_stages
    )
    return out
