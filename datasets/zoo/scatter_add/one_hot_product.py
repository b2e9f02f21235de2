"""Few targets: a product of a one-hot matrix, made on the fly, with the rows."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.scatter_add.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "TARGETS": [16, 32, 64, 128],
    "BLOCK": [32, 64, 128],
    "TOKENS": [32, 64, 128],
    "SPLIT": [1, 4, 16],
    "num_warps": [4, 8],
}


@triton.jit
def one_hot_kernel(
    rows_ptr, index_ptr, out_ptr, T, S, D, length,
    TARGETS: tl.constexpr, BLOCK: tl.constexpr, TOKENS: tl.constexpr,
):  # fmt: skip
    targets = tl.program_id(0) * TARGETS + tl.arange(0, TARGETS)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first = tl.program_id(2) * length
    total = tl.zeros((TARGETS, BLOCK), dtype=tl.float32)
    for start in range(first, first + length, TOKENS):
        t = start + tl.arange(0, TOKENS)
        index = tl.load(index_ptr + t, mask=t < T, other=-1)
        inside = (t[:, None] < T) & (d[None, :] < D)
        rows = tl.load(rows_ptr + t[:, None] * D + d[None, :], mask=inside, other=0.0)
        hot = (targets[:, None] == index[None, :]).to(rows.dtype)
        total = tl.dot(hot, rows, total)
    inside = (targets[:, None] < S) & (d[None, :] < D)
    target = out_ptr + targets[:, None] * D + d[None, :]
    tl.atomic_add(target, total, mask=inside, sem="relaxed")


def valid(params, shape):
    """Half precision, few targets, and four to 128 sums a thread."""
    few = shape["dtype"] != "float32" and shape["S"] <= 512
    sums = params["TARGETS"] * params["BLOCK"] / (32 * params["num_warps"])
    return few and 4 <= sums <= 128


def kernel(rows, index, like, *, TARGETS=64, BLOCK=64, TOKENS=64, SPLIT=16, num_warps=4):
    (T, D), S = rows.shape, like.shape[0]
    out = torch.zeros_like(like)
    length = triton.cdiv(triton.cdiv(T, SPLIT), TOKENS) * TOKENS
    grid = (triton.cdiv(S, TARGETS), triton.cdiv(D, BLOCK), triton.cdiv(T, length))
    one_hot_kernel[grid](
        rows, index, out, T, S, D, length, TARGETS, BLOCK, TOKENS, num_warps=num_warps
    )
    return out
