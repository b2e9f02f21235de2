"""Blocks of bytes: both halves are scaled and interleaved, then stored as one stretch."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.nibble_unpack.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [256, 512, 1024, 2048, 4096],
    "JOINED": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def unpack_kernel(
    packed_ptr, scales_ptr, out_ptr, size, half_group, BLOCK: tl.constexpr, JOINED: tl.constexpr
):
    start = tl.program_id(0).to(tl.int64) * BLOCK
    i = start + tl.arange(0, BLOCK)
    two = tl.load(packed_ptr + i, mask=i < size, other=0).to(tl.int32)
    scale = tl.load(scales_ptr + i // half_group, mask=i < size, other=0.0).to(tl.float32)
    low = ((two & 15) ^ 8) - 8
    high = ((two >> 4) ^ 8) - 8
    low = (low.to(tl.float32) * scale).to(out_ptr.dtype.element_ty)
    high = (high.to(tl.float32) * scale).to(out_ptr.dtype.element_ty)
    if JOINED:
        at = 2 * start + tl.arange(0, 2 * BLOCK)
        tl.store(out_ptr + at, tl.interleave(low, high), mask=at < 2 * size)
    else:
        tl.store(out_ptr + 2 * i, low, mask=i < size)
        tl.store(out_ptr + 2 * i + 1, high, mask=i < size)


def valid(params, shape):
    """Two to 32 bytes a thread."""
    return 2 <= params["BLOCK"] / (32 * params["num_warps"]) <= 32


def kernel(packed, scales, group, *, BLOCK=1024, JOINED=True, num_warps=4):
    M, N = packed.shape[0], 2 * packed.shape[1]
    out = torch.empty((M, N), dtype=scales.dtype, device=packed.device)
    grid = (triton.cdiv(M * N // 2, BLOCK),)
    unpack_kernel[grid](
        packed, scales, out, M * N // 2, group // 2, BLOCK, JOINED, num_warps=num_warps
    )
    return out
