"""Every element is compared with every bin of a block of bins: arithmetic in place of atomics."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.histogram.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [16, 32, 64, 128, 256, 512],
    "BINS_EACH": [4, 8, 16, 32, 64],
    "STRETCH": [4096, 16384],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def comparing_kernel(
    x_ptr, out_ptr, N, bins, STRETCH, BLOCK: tl.constexpr, BINS_EACH: tl.constexpr
):
    slot = tl.program_id(1) * BINS_EACH + tl.arange(0, BINS_EACH)
    hits = tl.zeros((BLOCK, BINS_EACH), dtype=tl.int32)
    first = tl.program_id(0) * STRETCH
    for start in range(first, min(first + STRETCH, N), BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < N, other=0).to(tl.int32)
        x = tl.where(at < N, x, -1)
        hits += (x[:, None] == slot[None, :]).to(tl.int32)
    tl.atomic_add(out_ptr + slot, tl.sum(hits, axis=0), mask=slot < bins, sem="relaxed")


def valid(params, shape):
    """One to 64 comparisons a thread, under 2**31 in all; bins not far more than there are."""
    block, each = params["BLOCK"], params["BINS_EACH"]
    work = shape["N"] * shape["BINS"]
    fits = each < 2 * shape["BINS"] and work < 1 << 31
    return fits and 1 <= block * each / (32 * params["num_warps"]) <= 64


def kernel(x, bins, *, BLOCK=64, BINS_EACH=16, STRETCH=4096, num_warps=4):
    N = x.shape[0]
    out = torch.zeros(bins, dtype=torch.int32, device=x.device)
    grid = (triton.cdiv(N, STRETCH), triton.cdiv(bins, BINS_EACH))
    comparing_kernel[grid](x, out, N, bins, STRETCH, BLOCK, BINS_EACH, num_warps=num_warps)
    return out
