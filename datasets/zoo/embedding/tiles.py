"""Tiles of several tokens and some of their columns; either may run fastest over the grid."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.embedding.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "TOKENS": [1, 2, 4, 8, 16, 32, 64],
    "BLOCK": [32, 64, 128, 256, 512, 1024],
    "COLUMNS_FIRST": [True, False],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def embedding_kernel(
    table_ptr, tokens_ptr, out_ptr, T, D,
    TOKENS: tl.constexpr, BLOCK: tl.constexpr, COLUMNS_FIRST: tl.constexpr,
):  # fmt: skip
    if COLUMNS_FIRST:
        across = tl.cdiv(D, BLOCK)
        down_id, across_id = tl.program_id(0) // across, tl.program_id(0) % across
    else:  # one band of the table at a time, which L2 may hold
        down = tl.cdiv(T, TOKENS)
        down_id, across_id = tl.program_id(0) % down, tl.program_id(0) // down
    t = down_id * TOKENS + tl.arange(0, TOKENS)
    d = across_id * BLOCK + tl.arange(0, BLOCK)
    inside = (t[:, None] < T) & (d[None, :] < D)
    token = tl.load(tokens_ptr + t, mask=t < T, other=0)
    row = tl.load(table_ptr + token[:, None] * D + d[None, :], mask=inside, other=0.0)
    tl.store(out_ptr + t[:, None] * D + d[None, :], row, mask=inside)


def valid(params, shape):
    """One to 64 elements a thread, and no block much longer than a row."""
    held = params["TOKENS"] * params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 64 and params["BLOCK"] < 2 * shape["D"]


def kernel(table, tokens, *, TOKENS=8, BLOCK=64, COLUMNS_FIRST=True, num_warps=4):
    T, D = tokens.shape[0], table.shape[1]
    out = torch.empty((T, D), dtype=table.dtype, device=table.device)
    grid = (triton.cdiv(T, TOKENS) * triton.cdiv(D, BLOCK),)
    embedding_kernel[grid](
        table, tokens, out, T, D, TOKENS, BLOCK, COLUMNS_FIRST, num_warps=num_warps
    )
    return out
