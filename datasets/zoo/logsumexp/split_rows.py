"""Log-sum-exp of rows split among programs, whose own log-sum-exps are merged the same way."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.logsumexp.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SPLITS": [2, 4, 8, 16, 32, 64, 128],
    "BLOCK": [256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def part_kernel(x_ptr, part_ptr, N, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    row, split = tl.program_id(1), tl.program_id(0)
    blocks = tl.cdiv(N, BLOCK)
    base = x_ptr + row.to(tl.int64) * N
    peak = tl.full((BLOCK,), -1e30, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    # Splits take blocks in turn, so that neighbours read neighbouring memory.
    for block in range(split, blocks, SPLITS):
        cols = block * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(base + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(peak, x)
        total = total * tl.exp(peak - higher) + tl.exp(x - higher)
        peak = higher
    top = tl.max(peak, axis=0)
    total = tl.sum(total * tl.exp(peak - top), axis=0)
    tl.store(part_ptr + row * SPLITS + split, top + tl.log(total))


@triton.jit
def merge_kernel(part_ptr, out_ptr, SPLITS: tl.constexpr):
    row = tl.program_id(0)
    parts = tl.load(part_ptr + row * SPLITS + tl.arange(0, SPLITS))
    peak = tl.max(parts, axis=0)
    tl.store(out_ptr + row, peak + tl.log(tl.sum(tl.exp(parts - peak), axis=0)))


def valid(params, shape):
    """One to 32 values a thread, and a block for every split."""
    held = params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 32 and params["BLOCK"] * (params["SPLITS"] - 1) < shape["N"]


def kernel(x, *, SPLITS=2, BLOCK=256, num_warps=4, num_stages=2):
    M, N = x.shape
    parts = torch.empty((M, SPLITS), dtype=torch.float32, device=x.device)
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    part_kernel[(SPLITS, M)](x, parts, N, SPLITS, BLOCK, num_warps=num_warps, num_stages=num_stages)
    merge_kernel[(M,)](parts, out, SPLITS, num_warps=1)
    return out
