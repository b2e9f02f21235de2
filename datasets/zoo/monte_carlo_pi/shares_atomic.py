"""Streams cut into shares of ROUNDS blocks; each adds its hits to the stream's atomically."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.monte_carlo_pi.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048],
    "ROUNDS": [1, 4, 16, 64],
    "num_warps": [2, 4, 8],
}


@triton.jit
def in_circle(a, b):
    a, b = a.to(tl.uint32, bitcast=True) >> 17, b.to(tl.uint32, bitcast=True) >> 17
    return (a * a + b * b < 1073741824).to(tl.int32)


@triton.jit
def share_kernel(seeds_ptr, out_ptr, draws, shares, BLOCK: tl.constexpr, ROUNDS: tl.constexpr):
    stream, share = tl.program_id(0) // shares, tl.program_id(0) % shares
    seed = tl.load(seeds_ptr + stream)
    hits = tl.zeros((BLOCK,), dtype=tl.int32)
    first = share * ROUNDS * BLOCK
    for start in range(first, min(first + ROUNDS * BLOCK, draws), BLOCK):
        at = start + tl.arange(0, BLOCK)
        a, b, c, d = tl.randint4x(seed, at)
        hits += tl.where(at < draws, in_circle(a, b) + in_circle(c, d), 0)
    tl.atomic_add(out_ptr + stream, tl.sum(hits), sem="relaxed")


def valid(params, shape):
    """One to eight draws a thread; no share far longer than a stream."""
    near = params["BLOCK"] * params["ROUNDS"] < 4 * max(shape["N"], 256)
    return near and 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 8


def kernel(seeds, draws, *, BLOCK=512, ROUNDS=1, num_warps=4):
    out = torch.zeros(seeds.numel(), dtype=torch.int32, device=seeds.device)
    shares = triton.cdiv(draws, BLOCK * ROUNDS)
    share_kernel[(seeds.numel() * shares,)](
        seeds, out, draws, shares, BLOCK, ROUNDS, num_warps=num_warps
    )
    return out
