"""A launch for each doubling of the window's width; the last joins two that overlap."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.sliding_max.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [512, 1024, 2048, 4096, 8192],
    "CACHE": ["", ".cg"],
    "num_warps": [2, 4, 8],
}


@triton.jit
def join_kernel(x_ptr, out_ptr, N, wide, out_wide, far, BLOCK: tl.constexpr, CACHE: tl.constexpr):
    x_ptr += tl.program_id(1).to(tl.int64) * wide
    out_ptr += tl.program_id(1).to(tl.int64) * out_wide
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < out_wide
    near = tl.load(x_ptr + at, mask=inside, other=0.0)
    other = tl.load(x_ptr + at + far, mask=inside, other=0.0, cache_modifier=CACHE)
    tl.store(out_ptr + at, tl.maximum(near, other), mask=inside)


def valid(params, shape):
    """Four to 32 elements a thread, no tile far longer than a row."""
    fits = params["BLOCK"] < 2 * shape["N"]
    return fits and 4 <= params["BLOCK"] / (32 * params["num_warps"]) <= 32


def kernel(x, window, *, BLOCK=1024, CACHE="", num_warps=4):
    M, N = x.shape
    covered, held = 1, x
    while covered < window:
        # A window of `covered` begins at each column of `held`; no more than it has are added.
        far = min(covered, window - covered)
        wide = held.shape[1]
        out = torch.empty((M, wide - far), dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(wide - far, BLOCK), M)
        join_kernel[grid](held, out, N, wide, wide - far, far, BLOCK, CACHE, num_warps=num_warps)
        covered, held = covered + far, out
    return held
