"""Blocks of bytes; the table's place follows from the byte and from the remainder."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.color_histogram_equalise.problem import (
    SHAPES,
    TOLERANCE,
    inputs,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [256, 512, 1024, 2048, 4096],
    "POLICY": ["", "evict_first"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def look_up_kernel(
    pixels_ptr, tables_ptr, out_ptr, size, C, BLOCK: tl.constexpr, POLICY: tl.constexpr
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pixel = tl.load(pixels_ptr + i, mask=i < size, other=0, eviction_policy=POLICY)
    out = tl.load(tables_ptr + i % C * 256 + pixel.to(tl.int32), mask=i < size, other=0)
    tl.store(out_ptr + i, out, mask=i < size, eviction_policy=POLICY)


def valid(params, shape):
    """Two to 32 bytes a thread."""
    return 2 <= params["BLOCK"] / (32 * params["num_warps"]) <= 32


def kernel(pixels, tables, *, BLOCK=1024, POLICY="", num_warps=4):
    N, C = pixels.shape
    out = torch.empty((N, C), dtype=tables.dtype, device=pixels.device)
    grid = (triton.cdiv(N * C, BLOCK),)
    look_up_kernel[grid](pixels, tables, out, N * C, C, BLOCK, POLICY, num_warps=num_warps)
    return out
