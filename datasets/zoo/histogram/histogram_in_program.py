"""Each program counts ROUNDS blocks with tl.histogram and adds its counts with one atomic a bin."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.histogram.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [256, 512, 1024, 2048, 4096, 8192],
    "ROUNDS": [1, 4, 16, 64],
    "SKIP_ZEROS": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def counting_kernel(
    x_ptr, out_ptr, N, bins, ROUNDS,
    SLOTS: tl.constexpr, BLOCK: tl.constexpr, SKIP_ZEROS: tl.constexpr,
):  # fmt: skip
    counts = tl.zeros((SLOTS,), dtype=tl.int32)
    first = tl.program_id(0) * ROUNDS * BLOCK
    for start in range(first, min(first + ROUNDS * BLOCK, N), BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < N, other=0).to(tl.int32)
        counts += tl.histogram(x, SLOTS, mask=at < N)
    slot = tl.arange(0, SLOTS)
    wanted = (slot < bins) & (counts > 0) if SKIP_ZEROS else slot < bins
    tl.atomic_add(out_ptr + slot, counts, mask=wanted, sem="relaxed")


def valid(params, shape):
    """Two to 64 elements a thread."""
    return 2 <= params["BLOCK"] / (32 * params["num_warps"]) <= 64


def kernel(x, bins, *, BLOCK=2048, ROUNDS=16, SKIP_ZEROS=False, num_warps=4):
    N = x.shape[0]
    out = torch.zeros(bins, dtype=torch.int32, device=x.device)
    slots = triton.next_power_of_2(bins)
    grid = (triton.cdiv(N, BLOCK * ROUNDS),)
    counting_kernel[grid](x, out, N, bins, ROUNDS, slots, BLOCK, SKIP_ZEROS, num_warps=num_warps)
    return out
