"""Softmax with one running peak and sum per row, in base 2, through block pointers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768],
    "PADDED": [True, False],
    "num_warps": [1, 2, 4, 8, 16, 32],
    "num_stages": [1, 2, 3, 4],
}

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def online_kernel(inp, out, n_cols, BLOCK: tl.constexpr, PADDED: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    src = tl.make_block_ptr(inp + row * n_cols, (n_cols,), (1,), (0,), (BLOCK,), (0,))
    dst = tl.make_block_ptr(out + row * n_cols, (n_cols,), (1,), (0,), (BLOCK,), (0,))
    peak = -1e30
    total = 0.0
    reader = src
    for start in range(0, n_cols, BLOCK):
        x = tl.load(reader, boundary_check=(0,), padding_option="zero").to(tl.float32) * LOG2E
        # Whole blocks need no mask: a branch for the last one alone, unless it is padded always.
        if PADDED or start + BLOCK > n_cols:
            x = tl.where(start + tl.arange(0, BLOCK) < n_cols, x, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(x, axis=0))
        total = total * tl.exp2(peak - new_peak) + tl.sum(tl.exp2(x - new_peak), axis=0)
        peak = new_peak
        reader = tl.advance(reader, (BLOCK,))

    shift = peak + tl.log2(total)  # 2**(x - shift) is normalised: no division at all
    for _ in range(0, n_cols, BLOCK):
        x = tl.load(src, boundary_check=(0,)).to(tl.float32) * LOG2E
        tl.store(dst, tl.exp2(x - shift).to(out.dtype.element_ty), boundary_check=(0,))
        src = tl.advance(src, (BLOCK,))
        dst = tl.advance(dst, (BLOCK,))


def valid(params, shape):
    """One to 64 values a thread, and no block far longer than a row."""
    block = params["BLOCK"]
    held = block / (32 * params["num_warps"])
    short = shape["N"] <= 512 * block  # a longer loop takes milliseconds
    return short and 1 <= held <= 64 and (block <= 512 or block < 2 * shape["N"])


def kernel(x, *, BLOCK=512, PADDED=True, num_warps=4, num_stages=2):
    n_rows, n_cols = x.shape
    out = torch.empty_like(x)
    online_kernel[(n_rows,)](
        x, out, n_cols, BLOCK, PADDED, num_warps=num_warps, num_stages=num_stages
    )
    return out
