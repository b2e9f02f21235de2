"""Some rows a program; partial sums stay in place over the whole row and meet once at the end."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.matvec.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "BLOCK": [64, 128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def rows_kernel(w_ptr, x_ptr, out_ptr, N, K, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    acc = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in range(0, K, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = (rows[:, None] < N) & (cols[None, :] < K)
        w = tl.load(w_ptr + rows[:, None] * K + cols[None, :], mask=inside, other=0.0)
        x = tl.load(x_ptr + cols, mask=cols < K, other=0.0)
        acc += w.to(tl.float32) * x.to(tl.float32)[None, :]
    tl.store(out_ptr + rows, tl.sum(acc, axis=1).to(out_ptr.dtype.element_ty), mask=rows < N)


def valid(params, shape):
    """Two to 64 values a thread; blocks neither far longer nor far shorter than a row."""
    near = params["BLOCK"] < 4 * shape["K"] <= 8192 * params["BLOCK"]
    return near and 2 <= params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"]) <= 64


def kernel(w, x, *, ROWS=8, BLOCK=128, num_warps=4, num_stages=2):
    N, K = w.shape
    out = torch.empty(N, dtype=w.dtype, device=w.device)
    rows_kernel[(triton.cdiv(N, ROWS),)](
        w, x, out, N, K, ROWS, BLOCK, num_warps=num_warps, num_stages=num_stages
    )
    return out
