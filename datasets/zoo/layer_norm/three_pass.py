"""Layer normalisation as the textbook has it: a loop for the mean, the variance, the result."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.layer_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_SIZE": [64, 128, 256, 512, 1024, 2048, 4096],
    "SCALAR_SUMS": [True, False],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3, 5],
}


@triton.jit
def three_pass_kernel(
    inp, weight, bias, out, n_cols, eps, SCALAR_SUMS: tl.constexpr, BLOCK_SIZE: tl.constexpr
):
    row_idx = tl.program_id(0).to(tl.int64)
    inp += row_idx * n_cols
    out += row_idx * n_cols
    offs = tl.arange(0, BLOCK_SIZE)

    total = 0.0 if SCALAR_SUMS else tl.zeros((BLOCK_SIZE,), tl.float32)
    for off in range(0, n_cols, BLOCK_SIZE):
        a = tl.load(inp + off + offs, mask=off + offs < n_cols, other=0.0).to(tl.float32)
        total += tl.sum(a, axis=0) if SCALAR_SUMS else a
    mean = (total if SCALAR_SUMS else tl.sum(total, axis=0)) / n_cols

    total = 0.0 if SCALAR_SUMS else tl.zeros((BLOCK_SIZE,), tl.float32)
    for off in range(0, n_cols, BLOCK_SIZE):
        a = tl.load(inp + off + offs, mask=off + offs < n_cols, other=0.0).to(tl.float32)
        a = tl.where(off + offs < n_cols, a - mean, 0.0)
        total += tl.sum(a * a, axis=0) if SCALAR_SUMS else a * a
    variance = (total if SCALAR_SUMS else tl.sum(total, axis=0)) / n_cols
    rstd = 1.0 / tl.sqrt(variance + eps)

    for off in range(0, n_cols, BLOCK_SIZE):
        mask = off + offs < n_cols
        w = tl.load(weight + off + offs, mask=mask)
        b = tl.load(bias + off + offs, mask=mask)
        a = tl.load(inp + off + offs, mask=mask, other=0.0).to(tl.float32)
        res = (a - mean) * rstd * w + b
        tl.store(out + off + offs, res.to(out.dtype.element_ty), mask=mask)


def valid(params, shape):
    """One to 32 values a thread, and no block far longer than a row."""
    block = params["BLOCK_SIZE"]
    held = block / (32 * params["num_warps"])
    return 1 <= held <= 32 and (block <= 512 or block < 2 * shape["N"])


def kernel(x, weight, bias, *, BLOCK_SIZE=512, SCALAR_SUMS=False, num_warps=4, num_stages=2):
    n_rows, n_cols = x.shape
    out = torch.empty_like(x)
    three_pass_kernel[(n_rows,)](
        x, weight, bias, out, n_cols, EPS, SCALAR_SUMS, BLOCK_SIZE,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
