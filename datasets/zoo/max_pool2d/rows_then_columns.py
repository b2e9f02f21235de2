"""Two kernels: maxima along the rows into a scratch plane, then along its columns."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.max_pool2d.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [64, 128, 256, 512, 1024, 2048],
    "COLUMN_BLOCK": [128, 512, 1024],
    "COLUMN_WARPS": [2, 4, 8],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def row_kernel(x_ptr, rows_ptr, W, Q, STRIDE, total, R: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    line, first = at // Q, at % Q * STRIDE - R // 2
    best = tl.full((BLOCK,), float("-inf"), x_ptr.dtype.element_ty)
    for j in tl.static_range(R):
        z = first + j
        there = (at < total) & (z >= 0) & (z < W)
        best = tl.maximum(best, tl.load(x_ptr + line * W + z, mask=there, other=float("-inf")))
    tl.store(rows_ptr + at, best, mask=at < total)


@triton.jit
def column_kernel(rows_ptr, out_ptr, H, P, Q, STRIDE, total, R: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    plane, q = at // (P * Q), at % Q
    first = at // Q % P * STRIDE - R // 2
    best = tl.full((BLOCK,), float("-inf"), rows_ptr.dtype.element_ty)
    for i in tl.static_range(R):
        y = first + i
        there = (at < total) & (y >= 0) & (y < H)
        x = tl.load(rows_ptr + (plane * H + y) * Q + q, mask=there, other=float("-inf"))
        best = tl.maximum(best, x)
    tl.store(out_ptr + at, best, mask=at < total)


def valid(params, shape):
    """One to 32 elements a thread in both kernels."""
    column = params["COLUMN_BLOCK"] / (32 * params["COLUMN_WARPS"])
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 32 and 1 <= column <= 32


def kernel(
    x, window, stride, *, BLOCK=512, COLUMN_BLOCK=512, COLUMN_WARPS=4, num_warps=4
):  # fmt: skip
    C, H, W = x.shape
    P = (H + window // 2 * 2 - window) // stride + 1
    Q = (W + window // 2 * 2 - window) // stride + 1
    rows = torch.empty((C, H, Q), dtype=x.dtype, device=x.device)
    out = torch.empty((C, P, Q), dtype=x.dtype, device=x.device)
    row_kernel[(triton.cdiv(rows.numel(), BLOCK),)](
        x, rows, W, Q, stride, rows.numel(), window, BLOCK, num_warps=num_warps
    )
    column_kernel[(triton.cdiv(out.numel(), COLUMN_BLOCK),)](
        rows, out, H, P, Q, stride, out.numel(), window, COLUMN_BLOCK, num_warps=COLUMN_WARPS
    )
    return out
