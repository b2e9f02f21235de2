"""An atomic an element, spread over COPIES of the sums that a second kernel adds up."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.weighted_histogram.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [256, 512, 1024, 2048],
    "COPIES": [1, 8, 64],
    "num_warps": [2, 4, 8],
}


@triton.jit
def scattering_kernel(
    bins_ptr, weights_ptr, sums_ptr, N, count, COPIES: tl.constexpr, BLOCK: tl.constexpr
):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.load(bins_ptr + at, mask=at < N, other=0) + tl.program_id(0) % COPIES * count
    weight = tl.load(weights_ptr + at, mask=at < N, other=0.0).to(tl.float32)
    tl.atomic_add(sums_ptr + slot, weight, mask=at < N, sem="relaxed")


@triton.jit
def adding_kernel(sums_ptr, out_ptr, count, COPIES: tl.constexpr, WIDE: tl.constexpr):
    slot = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    total = tl.zeros((WIDE,), dtype=tl.float32)
    for copy in range(COPIES):
        total += tl.load(sums_ptr + copy * count + slot, mask=slot < count, other=0.0)
    tl.store(out_ptr + slot, total, mask=slot < count)


def valid(params, shape):
    """One to 16 elements a thread; the copies are no longer than the input."""
    each = params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= each <= 16 and params["COPIES"] * shape["BINS"] <= max(shape["N"], shape["BINS"])


def kernel(bins, weights, count, *, BLOCK=1024, COPIES=8, num_warps=4):
    N = bins.shape[0]
    sums = torch.zeros((COPIES, count), dtype=torch.float32, device=bins.device)
    scattering_kernel[(triton.cdiv(N, BLOCK),)](
        bins, weights, sums, N, count, COPIES, BLOCK, num_warps=num_warps
    )
    if COPIES == 1:
        return sums[0]
    out = torch.empty(count, dtype=torch.float32, device=bins.device)
    adding_kernel[(triton.cdiv(count, 128),)](sums, out, count, COPIES, 128, num_warps=4)
    return out
