"""A block of the input a program, read once and stored R x R times at a stride of R."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.upsample_nearest.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [64, 128, 256, 512, 1024],
    "LOOPED": [False, True],
    "ROWS_INNER": [False, True],
    "READ": ["", ".cg"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def spread_kernel(
    x_ptr, out_ptr, W, total,
    R: tl.constexpr, BLOCK: tl.constexpr, LOOPED: tl.constexpr, ROWS_INNER: tl.constexpr,
    READ: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    x = tl.load(x_ptr + at, mask=inside, cache_modifier=READ)
    out = out_ptr + at // W * R * (W * R) + at % W * R
    if LOOPED:
        for place in range(R * R):
            i, j = place // R, place % R
            tl.store(out + (j * W * R + i if ROWS_INNER else i * W * R + j), x, mask=inside)
    else:
        for place in tl.static_range(R * R):
            i, j = place // R, place % R
            tl.store(out + (j * W * R + i if ROWS_INNER else i * W * R + j), x, mask=inside)


def valid(params, shape):
    """One to 16 elements a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 16


def kernel(x, factor, *, BLOCK=256, LOOPED=False, ROWS_INNER=False, READ="", num_warps=4):
    C, H, W = x.shape
    out = torch.empty((C, H * factor, W * factor), dtype=x.dtype, device=x.device)
    total = x.numel()
    spread_kernel[(triton.cdiv(total, BLOCK),)](
        x, out, W, total, factor, BLOCK, LOOPED, ROWS_INNER, READ, num_warps=num_warps
    )
    return out
