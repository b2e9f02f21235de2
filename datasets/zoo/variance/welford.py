"""Each lane keeps count, mean and squared distance; a tree of merges joins the lanes."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.variance.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "BLOCK": [64, 128, 256, 512, 1024, 2048],
    "STAGES": [1, 2, 3],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def merge(count, mean, spread, other_count, other_mean, other_spread):
    total = count + other_count
    share = tl.where(total > 0, other_count / tl.maximum(total, 1.0), 0.0)
    apart = other_mean - mean
    spread += other_spread + apart * apart * count * share
    return total, mean + apart * share, spread


@triton.jit
def welford_kernel(
    x_ptr, mean_ptr, variance_ptr, M, N,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    count = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    mean = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    spread = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in tl.range(0, N, BLOCK, num_stages=STAGES):
        cols = start + tl.arange(0, BLOCK)
        inside = (rows < M)[:, None] & (cols < N)[None, :]
        x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=inside, other=0.0)
        apart = tl.where(inside, x.to(tl.float32) - mean, 0.0)
        count += tl.where(inside, 1.0, 0.0)
        mean += apart / tl.maximum(count, 1.0)
        spread += apart * tl.where(inside, x.to(tl.float32) - mean, 0.0)
    _, mean, spread = tl.reduce((count, mean, spread), 1, merge)
    tl.store(mean_ptr + rows, mean, mask=rows < M)
    tl.store(variance_ptr + rows, spread / (N - 1), mask=rows < M)


def valid(params, shape):
    """One to 16 triples a thread, no chunk far longer than a row."""
    held = params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 16 and params["BLOCK"] < 4 * shape["N"]


def kernel(x, *, ROWS=1, BLOCK=512, STAGES=1, num_warps=4):
    M, N = x.shape
    mean = torch.empty(M, dtype=torch.float32, device=x.device)
    variance = torch.empty_like(mean)
    welford_kernel[(triton.cdiv(M, ROWS),)](
        x, mean, variance, M, N, ROWS, BLOCK, STAGES, num_warps=num_warps
    )
    return mean, variance
