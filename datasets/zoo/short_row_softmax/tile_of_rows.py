"""Tiles of whole rows, padded to a power of two."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.short_row_softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ELEMENTS": [256, 512, 1024, 2048, 4096, 8192],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def softmax_kernel(x_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    col = tl.arange(0, BLOCK)[None, :]
    inside = (row < M) & (col < N)
    x = tl.load(x_ptr + row * N + col, mask=inside, other=-1e30).to(tl.float32)
    weights = tl.exp(x - tl.max(x, axis=1)[:, None])
    out = weights / tl.sum(weights, axis=1)[:, None]
    tl.store(out_ptr + row * N + col, out.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Whole rows; two to 64 elements a thread."""
    held = params["ELEMENTS"] / (32 * params["num_warps"])
    return params["ELEMENTS"] >= triton.next_power_of_2(shape["N"]) and 2 <= held <= 64


def kernel(x, *, ELEMENTS=1024, num_warps=2):
    M, N = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(N)
    rows = ELEMENTS // block
    grid = (triton.cdiv(M, rows),)
    softmax_kernel[grid](x, out, M, N, rows, block, num_warps=num_warps)
    return out
