"""Tiles of the output, gathered straight from memory; L1 serves what lines share."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.index_select_columns.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "BLOCK": [32, 64, 128, 256, 512, 1024],
    "CACHE": ["", ".cg"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def select_kernel(
    x_ptr, index_ptr, out_ptr, M, N, K,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, CACHE: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    places = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (rows[:, None] < M) & (places[None, :] < K)
    index = tl.load(index_ptr + places, mask=places < K, other=0)
    source = x_ptr + rows[:, None] * N + index[None, :]
    x = tl.load(source, mask=inside, other=0.0, cache_modifier=CACHE)
    tl.store(out_ptr + rows[:, None] * K + places[None, :], x, mask=inside)


def valid(params, shape):
    """One to 64 elements a thread, no tile far wider than a row."""
    held = params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 64 and params["BLOCK"] < 2 * shape["K"]


def kernel(x, index, *, ROWS=4, BLOCK=128, CACHE="", num_warps=4):
    (M, N), K = x.shape, index.shape[0]
    out = torch.empty((M, K), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, ROWS), triton.cdiv(K, BLOCK))
    select_kernel[grid](x, index, out, M, N, K, ROWS, BLOCK, CACHE, num_warps=num_warps)
    return out
