"""A flat sweep over the result: inner elements are fetched, those of the frame are the constant."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.pad.problem import FILL, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "PROGRAMS": [0, 264, 528, 1056, 2112],
    "POLICY": ["", "evict_first"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def flat_kernel(
    x_ptr, out_ptr, H, W, P, total, FILL: tl.constexpr, BLOCK: tl.constexpr, POLICY: tl.constexpr
):
    wide, high = W + 2 * P, H + 2 * P
    for start in range(tl.program_id(0) * BLOCK, total, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        col = at % wide - P
        row = at // wide % high - P
        plane = at // (wide * high)
        inner = (at < total) & (row >= 0) & (row < H) & (col >= 0) & (col < W)
        source = x_ptr + (plane * H + row) * W + col
        x = tl.load(source, mask=inner, other=FILL, eviction_policy=POLICY)
        tl.store(out_ptr + at, x, mask=at < total)


def valid(params, shape):
    """One to 32 elements a thread; PROGRAMS = 0 stands for one a block."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 32


def kernel(x, width, *, BLOCK=1024, PROGRAMS=0, POLICY="", num_warps=4):
    C, H, W = x.shape
    out = torch.empty((C, H + 2 * width, W + 2 * width), dtype=x.dtype, device=x.device)
    total = out.numel()
    blocks = triton.cdiv(total, BLOCK)
    grid = (min(PROGRAMS or blocks, blocks),)
    flat_kernel[grid](x, out, H, W, width, total, FILL, BLOCK, POLICY, num_warps=num_warps)
    return out
