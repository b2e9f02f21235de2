"""Over the rows as one vector, several blocks a program, in order or far apart."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.scatter_add.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [64, 128, 256, 512, 1024, 2048],
    "BLOCKS": [1, 2, 4, 8, 16],
    "APART": [True, False],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def scatter_flat_kernel(
    rows_ptr, index_ptr, out_ptr, n, D,
    BLOCK: tl.constexpr, BLOCKS: tl.constexpr, APART: tl.constexpr,
):  # fmt: skip
    for k in range(BLOCKS):
        if APART:
            block = tl.program_id(0) + k * tl.num_programs(0)
        else:
            block = tl.program_id(0) * BLOCKS + k
        i = block * BLOCK + tl.arange(0, BLOCK)
        t = i // D
        index = tl.load(index_ptr + t, mask=i < n, other=0)
        value = tl.load(rows_ptr + i, mask=i < n, other=0.0).to(tl.float32)
        tl.atomic_add(out_ptr + index * D + (i - t * D), value, mask=i < n, sem="relaxed")


def valid(params, shape):
    """One to 32 elements a thread; with one block there is no order."""
    held = params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 32 and (params["BLOCKS"] > 1 or params["APART"])


def kernel(rows, index, like, *, BLOCK=512, BLOCKS=1, APART=True, num_warps=4):
    T, D = rows.shape
    out = torch.zeros_like(like)
    grid = (triton.cdiv(T * D, BLOCK * BLOCKS),)
    scatter_flat_kernel[grid](rows, index, out, T * D, D, BLOCK, BLOCKS, APART, num_warps=num_warps)
    return out
