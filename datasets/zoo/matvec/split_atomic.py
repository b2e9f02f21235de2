"""A row is split among programs that add their sums to an fp32 result atomically."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.matvec.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SPLIT": [2, 4, 8, 16, 32],
    "ROWS": [1, 2, 4, 8],
    "BLOCK": [128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def split_kernel(
    w_ptr, x_ptr, sum_ptr, N, K, SPLIT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    acc = tl.zeros((ROWS,), dtype=tl.float32)
    for start in range(tl.program_id(0) * BLOCK, K, SPLIT * BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < K, other=0.0).to(tl.float32)
        inside = (rows[:, None] < N) & (cols[None, :] < K)
        w = tl.load(w_ptr + rows[:, None] * K + cols[None, :], mask=inside, other=0.0)
        acc += tl.sum(w.to(tl.float32) * x[None, :], axis=1)
    tl.atomic_add(sum_ptr + rows, acc, mask=rows < N, sem="relaxed")


@triton.jit
def round_kernel(sum_ptr, out_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(sum_ptr + at, mask=at < N)
    tl.store(out_ptr + at, total.to(out_ptr.dtype.element_ty), mask=at < N)


def valid(params, shape):
    """One to 64 elements a thread; every part has half a block of the row or more."""
    enough = params["SPLIT"] * params["BLOCK"] <= 2 * shape["K"]
    return enough and 1 <= params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"]) <= 64


def kernel(w, x, *, SPLIT=4, ROWS=4, BLOCK=256, num_warps=4):
    N, K = w.shape
    total = torch.zeros(N, dtype=torch.float32, device=w.device)
    grid = (SPLIT, triton.cdiv(N, ROWS))
    split_kernel[grid](w, x, total, N, K, SPLIT, ROWS, BLOCK, num_warps=num_warps)
    if w.dtype == torch.float32:
        return total
    out = torch.empty(N, dtype=w.dtype, device=w.device)
    round_kernel[(triton.cdiv(N, 512),)](total, out, N, 512)
    return out
