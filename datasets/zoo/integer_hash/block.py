"""A block of numbers a program, one chain of operations an element."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.integer_hash.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048],
    "UNROLL": [1, 2, 4],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def hash_kernel(x_ptr, out_ptr, N, rounds, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    word = tl.load(x_ptr + at, mask=at < N, other=0).to(tl.uint32, bitcast=True)
    for _ in tl.range(0, rounds, loop_unroll_factor=UNROLL):
        word = (word ^ (word >> 16)) * 0x7FEB352D
        word = (word ^ (word >> 15)) * 0x846CA68B
        word = word ^ (word >> 16)
    tl.store(out_ptr + at, word.to(tl.int32, bitcast=True), mask=at < N)


def valid(params, shape):
    """One to 16 numbers a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 16


def kernel(x, rounds, *, BLOCK=512, UNROLL=1, num_warps=4):
    out = torch.empty_like(x)
    N = x.numel()
    hash_kernel[(triton.cdiv(N, BLOCK),)](x, out, N, rounds, BLOCK, UNROLL, num_warps=num_warps)
    return out
