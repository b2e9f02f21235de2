"""Whole rows in registers: the mean, then the squared distances, with a single reading."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.variance.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "STEPS": [1, 2, 4],
    "EVICTION": ["", "evict_first"],
    "num_warps": [1, 2, 4, 8, 16, 32],
}


@triton.jit
def variance_held_kernel(
    x_ptr, mean_ptr, variance_ptr, M, N,
    ROWS: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr, EVICTION: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, BLOCK)
    for step in range(STEPS):
        rows = (tl.program_id(0) * STEPS + step) * ROWS + tl.arange(0, ROWS)
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        place = x_ptr + rows[:, None] * N + cols[None, :]
        x = tl.load(place, mask=inside, other=0.0, eviction_policy=EVICTION).to(tl.float32)
        mean = tl.sum(x, axis=1) / N
        apart = tl.where(inside, x - mean[:, None], 0.0)
        tl.store(mean_ptr + rows, mean, mask=rows < M)
        tl.store(variance_ptr + rows, tl.sum(apart * apart, axis=1) / (N - 1), mask=rows < M)


def valid(params, shape):
    """Rows of at most 16384 in registers: one to 128 values a thread."""
    block = 1 << (shape["N"] - 1).bit_length()
    held = params["ROWS"] * block / (32 * params["num_warps"])
    return block <= 16384 and 1 <= held <= 128


def kernel(x, *, ROWS=1, STEPS=1, EVICTION="", num_warps=8):
    M, N = x.shape
    mean = torch.empty(M, dtype=torch.float32, device=x.device)
    variance = torch.empty(M, dtype=torch.float32, device=x.device)
    variance_held_kernel[(triton.cdiv(M, ROWS * STEPS),)](
        x, mean, variance, M, N, ROWS, STEPS, triton.next_power_of_2(N), EVICTION,
        num_warps=num_warps,
    )  # fmt: skip
    return mean, variance
