"""Softmax in two passes: an online peak and sum in every lane, then the weights written."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096, 8192, 16384],
    "BACKWARDS": [False, True],
    "FIRST_EVICT": ["", "evict_last"],
    "num_warps": [1, 2, 4, 8, 16, 32],
    "num_stages": [1, 2, 4],
}


@triton.jit
def two_pass_kernel(
    x_ptr, out_ptr, N, BLOCK: tl.constexpr, BACKWARDS: tl.constexpr, FIRST_EVICT: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * N
    lanes = tl.arange(0, BLOCK)
    peak = tl.full((BLOCK,), -1e30, dtype=tl.float32)  # of each lane's own elements
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + lanes
        x = tl.load(
            x_ptr + row + cols, mask=cols < N, other=float("-inf"), eviction_policy=FIRST_EVICT
        ).to(tl.float32)
        new_peak = tl.maximum(peak, x)
        total = total * tl.exp(peak - new_peak) + tl.exp(x - new_peak)
        peak = new_peak
    highest = tl.max(peak, axis=0)
    scale = 1.0 / tl.sum(total * tl.exp(peak - highest), axis=0)

    last = (tl.cdiv(N, BLOCK) - 1) * BLOCK
    for start in range(0, N, BLOCK):
        # Going back, what was read last is found in the caches first.
        cols = (last - start if BACKWARDS else start) + lanes
        x = tl.load(x_ptr + row + cols, mask=cols < N, other=0.0).to(tl.float32)
        out = tl.exp(x - highest) * scale
        tl.store(out_ptr + row + cols, out.to(out_ptr.dtype.element_ty), mask=cols < N)


def valid(params, shape):
    """One to 64 values a thread, and no block far longer than a row."""
    block = params["BLOCK"]
    near = block <= 256 or block < 2 * shape["N"]
    short = shape["N"] <= 512 * block  # a longer loop takes milliseconds
    return near and short and 1 <= block / (32 * params["num_warps"]) <= 64


def kernel(x, *, BLOCK=256, BACKWARDS=False, FIRST_EVICT="", num_warps=4, num_stages=2):
    M, N = x.shape
    out = torch.empty_like(x)
    two_pass_kernel[(M,)](
        x, out, N, BLOCK, BACKWARDS, FIRST_EVICT, num_warps=num_warps, num_stages=num_stages
    )
    return out
