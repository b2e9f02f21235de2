"""Persistent programs; the number of rounds is known to the compiler, which may unroll them all."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.integer_hash.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK": [256, 512, 1024, 2048],
    "PROGRAMS": [264, 1056, 4224],
    "STATIC": [False, True],
    "num_warps": [4, 8],
}


@triton.jit
def mixed(word):
    word = (word ^ (word >> 16)) * 0x7FEB352D
    word = (word ^ (word >> 15)) * 0x846CA68B
    return word ^ (word >> 16)


@triton.jit
def constant_kernel(
    x_ptr, out_ptr, N, ROUNDS: tl.constexpr, STATIC: tl.constexpr, BLOCK: tl.constexpr
):
    for start in range(tl.program_id(0) * BLOCK, N, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        word = tl.load(x_ptr + at, mask=at < N, other=0).to(tl.uint32, bitcast=True)
        if STATIC:
            for _ in tl.static_range(ROUNDS):
                word = mixed(word)
        else:
            for _ in range(ROUNDS):
                word = mixed(word)
        tl.store(out_ptr + at, word.to(tl.int32, bitcast=True), mask=at < N)


def valid(params, shape):
    """Two to 16 numbers a thread; not too much code."""
    short = shape["ROUNDS"] <= 32 or not params["STATIC"]
    return short and 2 <= params["BLOCK"] / (32 * params["num_warps"]) <= 16


def kernel(x, rounds, *, BLOCK=1024, PROGRAMS=1056, STATIC=False, num_warps=4):
    out = torch.empty_like(x)
    N = x.numel()
    constant_kernel[(min(PROGRAMS, triton.cdiv(N, BLOCK)),)](
        x, out, N, rounds, STATIC, BLOCK, num_warps=num_warps
    )
    return out
