"""Sums of stretches, torch.cumsum over these, then a scan of each stretch from where it begins."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.long_scan.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [1024, 2048, 4096, 8192],
    "ROUNDS": [1, 2, 4, 8],
    "num_warps": [4, 8, 16],
}


@triton.jit
def stretch_sum_kernel(x_ptr, sums_ptr, N, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for turn in range(ROUNDS):
        at = (tl.program_id(0) * ROUNDS + turn) * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + at, mask=at < N, other=0.0).to(tl.float32)
    tl.store(sums_ptr + tl.program_id(0), tl.sum(total, axis=0))


@triton.jit
def stretch_scan_kernel(x_ptr, before_ptr, out_ptr, N, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    carry = tl.load(before_ptr + tl.program_id(0))
    for turn in range(ROUNDS):
        at = (tl.program_id(0) * ROUNDS + turn) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < N, other=0.0).to(tl.float32)
        tl.store(out_ptr + at, tl.cumsum(x, axis=0) + carry, mask=at < N)
        carry += tl.sum(x, axis=0)


def valid(params, shape):
    """Four to 32 elements a thread."""
    return 4 <= params["BLOCK"] / (32 * params["num_warps"]) <= 32


def kernel(x, *, BLOCK=2048, ROUNDS=4, num_warps=8):
    N = x.shape[0]
    out = torch.empty(N, dtype=torch.float32, device=x.device)
    parts = triton.cdiv(N, BLOCK * ROUNDS)
    sums = torch.empty(parts, dtype=torch.float32, device=x.device)
    stretch_sum_kernel[(parts,)](x, sums, N, ROUNDS, BLOCK, num_warps=num_warps)
    before = torch.cumsum(sums, 0) - sums
    stretch_scan_kernel[(parts,)](x, before, out, N, ROUNDS, BLOCK, num_warps=num_warps)
    return out
