"""A program a stream, with a tile of hits that it adds up at the end."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.monte_carlo_pi.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK": [64, 128, 256, 512, 1024],
    "UNROLL": [1, 2],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def in_circle(a, b):
    x, y = (a >> 17).to(tl.int32), (b >> 17).to(tl.int32)
    return x * x + y * y < 1073741824


@triton.jit
def stream_kernel(seeds_ptr, out_ptr, draws, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
    seed = tl.load(seeds_ptr + tl.program_id(0))
    hits = tl.zeros((BLOCK,), dtype=tl.int32)
    for start in tl.range(0, draws, BLOCK, loop_unroll_factor=UNROLL):
        at = start + tl.arange(0, BLOCK)
        a, b, c, d = tl.randint4x(seed, at)
        first = in_circle(a.to(tl.uint32, bitcast=True), b.to(tl.uint32, bitcast=True))
        second = in_circle(c.to(tl.uint32, bitcast=True), d.to(tl.uint32, bitcast=True))
        hits += tl.where(at < draws, first.to(tl.int32) + second.to(tl.int32), 0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(hits))


def valid(params, shape):
    """One to four draws a thread; not a few streams of many draws."""
    few = shape["S"] < 32 and shape["N"] > 1 << 20
    return not few and 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 4


def kernel(seeds, draws, *, BLOCK=256, UNROLL=1, num_warps=4):
    out = torch.empty(seeds.numel(), dtype=torch.int32, device=seeds.device)
    stream_kernel[(seeds.numel(),)](seeds, out, draws, BLOCK, UNROLL, num_warps=num_warps)
    return out
