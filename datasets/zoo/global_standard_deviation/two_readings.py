"""Sums of blocks, torch's mean of these; squared deviations, torch's root of their mean."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.global_standard_deviation.problem import (
    SHAPES,
    TOLERANCE,
    inputs,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [1024, 2048, 4096, 8192],
    "ROUNDS": [1, 4, 16],
    "TURNED": [False, True],
    "num_warps": [4, 8],
}


@triton.jit
def sum_kernel(x_ptr, part_ptr, N, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for turn in range(ROUNDS):
        at = (tl.program_id(0) * ROUNDS + turn) * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + at, mask=at < N, other=0.0).to(tl.float32)
    tl.store(part_ptr + tl.program_id(0), tl.sum(total, axis=0))


@triton.jit
def square_kernel(
    x_ptr, mean_ptr, part_ptr, N, ROUNDS: tl.constexpr, BLOCK: tl.constexpr, TURNED: tl.constexpr
):
    pid = tl.program_id(0)
    if TURNED:  # what was read last may still be in L2
        pid = tl.num_programs(0) - 1 - pid
    mean = tl.load(mean_ptr)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for turn in range(ROUNDS):
        at = (pid * ROUNDS + turn) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < N, other=0.0).to(tl.float32)
        off = tl.where(at < N, x - mean, 0.0)
        total += off * off
    tl.store(part_ptr + pid, tl.sum(total, axis=0))


def valid(params, shape):
    """Four to 16 elements a thread; a program for each multiprocessor."""
    busy = 132 * params["BLOCK"] * params["ROUNDS"] <= shape["N"]
    return busy and 4 <= params["BLOCK"] / (32 * params["num_warps"]) <= 16


def kernel(x, *, BLOCK=4096, ROUNDS=4, TURNED=True, num_warps=8):
    N = x.shape[0]
    part = torch.empty(triton.cdiv(N, BLOCK * ROUNDS), dtype=torch.float32, device=x.device)
    grid = (part.shape[0],)
    sum_kernel[grid](x, part, N, ROUNDS, BLOCK, num_warps=num_warps)
    mean = part.sum() / N
    square_kernel[grid](x, mean, part, N, ROUNDS, BLOCK, TURNED, num_warps=num_warps)
    return torch.sqrt(part.sum() / N).reshape(1)
