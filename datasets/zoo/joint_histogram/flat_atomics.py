"""An atomic for every pair, in one of COPIES tables in memory that torch adds up."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.joint_histogram.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [256, 512, 1024, 2048, 4096],
    "COPIES": [1, 4, 16],
    "ROUNDS": [1, 4],
    "num_warps": [2, 4, 8],
}


@triton.jit
def pairs_kernel(
    first_ptr, second_ptr, counts_ptr, N, bins,
    COPIES: tl.constexpr, ROUNDS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    counts_ptr += tl.program_id(0) % COPIES * bins * bins
    for turn in tl.static_range(ROUNDS):
        at = (tl.program_id(0) * ROUNDS + turn) * BLOCK + tl.arange(0, BLOCK)
        row = tl.load(first_ptr + at, mask=at < N, other=0).to(tl.int32)
        column = tl.load(second_ptr + at, mask=at < N, other=0).to(tl.int32)
        ones = tl.full((BLOCK,), 1, tl.int32)
        tl.atomic_add(counts_ptr + row * bins + column, ones, mask=at < N, sem="relaxed")


def valid(params, shape):
    """One to 16 pairs a thread; the copies are no longer than the input."""
    each = params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= each <= 16 and params["COPIES"] * shape["BINS"] ** 2 <= max(
        shape["N"], shape["BINS"] ** 2 * 4
    )


def kernel(first, second, bins, *, BLOCK=1024, COPIES=4, ROUNDS=1, num_warps=4):
    N = first.shape[0]
    counts = torch.zeros((COPIES, bins, bins), dtype=torch.int32, device=first.device)
    pairs_kernel[(triton.cdiv(N, BLOCK * ROUNDS),)](
        first, second, counts, N, bins, COPIES, ROUNDS, BLOCK, num_warps=num_warps
    )
    return counts[0] if COPIES == 1 else counts.sum(0, dtype=torch.int32)
