"""An atomic an element, spread over COPIES of the counts that a second kernel adds up."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.histogram.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "COPIES": [1, 8, 64],
    "ROUNDS": [1, 4],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def scattering_kernel(
    x_ptr, counts_ptr, N, bins,
    COPIES: tl.constexpr, ROUNDS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    counts_ptr += tl.program_id(0) % COPIES * bins
    for turn in tl.static_range(ROUNDS):
        at = (tl.program_id(0) * ROUNDS + turn) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < N, other=0).to(tl.int32)
        ones = tl.full((BLOCK,), 1, tl.int32)
        tl.atomic_add(counts_ptr + x, ones, mask=at < N, sem="relaxed")


@triton.jit
def adding_kernel(counts_ptr, out_ptr, bins, COPIES: tl.constexpr, WIDE: tl.constexpr):
    slot = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    copy = tl.arange(0, COPIES)
    mask = (copy[:, None] >= 0) & (slot[None, :] < bins)
    counts = tl.load(counts_ptr + copy[:, None] * bins + slot[None, :], mask=mask, other=0)
    tl.store(out_ptr + slot, tl.sum(counts, axis=0), mask=slot < bins)


def valid(params, shape):
    """One to 32 elements a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 32


def kernel(x, bins, *, BLOCK=1024, COPIES=8, ROUNDS=1, num_warps=4):
    N = x.shape[0]
    counts = torch.zeros((COPIES, bins), dtype=torch.int32, device=x.device)
    grid = (triton.cdiv(N, BLOCK * ROUNDS),)
    scattering_kernel[grid](x, counts, N, bins, COPIES, ROUNDS, BLOCK, num_warps=num_warps)
    if COPIES == 1:
        return counts[0]
    out = torch.empty(bins, dtype=torch.int32, device=x.device)
    adding_kernel[(triton.cdiv(bins, 32),)](counts, out, bins, COPIES, 32, num_warps=1)
    return out
