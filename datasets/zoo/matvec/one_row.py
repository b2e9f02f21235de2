"""One row a program, summed block after block to a scalar, the simplest way to say it."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.matvec.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [64, 128, 256, 512, 1024, 2048, 4096],
    "SUM_LAST": [False, True],  # one reduction at the end, or one a block
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 4],
}


@triton.jit
def one_row_kernel(w, x, y, K, BLOCK: tl.constexpr, SUM_LAST: tl.constexpr):
    row = tl.program_id(0)
    w += row.to(tl.int64) * K
    if SUM_LAST:
        products = tl.zeros((BLOCK,), dtype=tl.float32)
        for start in range(0, K, BLOCK):
            at = start + tl.arange(0, BLOCK)
            a = tl.load(w + at, mask=at < K, other=0.0).to(tl.float32)
            products += a * tl.load(x + at, mask=at < K, other=0.0).to(tl.float32)
        total = tl.sum(products)
    else:
        total = 0.0
        for start in range(0, K, BLOCK):
            at = start + tl.arange(0, BLOCK)
            a = tl.load(w + at, mask=at < K, other=0.0).to(tl.float32)
            total += tl.sum(a * tl.load(x + at, mask=at < K, other=0.0).to(tl.float32))
    tl.store(y + row, total.to(y.dtype.element_ty))


def valid(params, shape):
    """One to 32 elements a thread; blocks neither far longer nor far shorter than a row."""
    near = params["BLOCK"] < 4 * shape["K"] <= 8192 * params["BLOCK"]
    return near and 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 32


def kernel(w, x, *, BLOCK=128, SUM_LAST=True, num_warps=1, num_stages=2):
    N, K = w.shape
    out = torch.empty(N, dtype=w.dtype, device=w.device)
    one_row_kernel[(N,)](w, x, out, K, BLOCK, SUM_LAST, num_warps=num_warps, num_stages=num_stages)
    return out
