"""A block of tokens of one head a program: loads jump between tokens, stores are one stretch."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.permute.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "TOKENS": [4, 8, 16, 32, 64, 128],
    "HEADS_FIRST": [False, True],
    "READ": ["", ".cg"],
    "WRITE": ["", ".cs"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def head_kernel(
    x_ptr, out_ptr, S, H, D,
    TOKENS: tl.constexpr, WIDE: tl.constexpr, HEADS_FIRST: tl.constexpr,
    READ: tl.constexpr, WRITE: tl.constexpr,
):  # fmt: skip
    if HEADS_FIRST:
        h, block = tl.program_id(0) % H, tl.program_id(0) // H
    else:
        blocks = tl.cdiv(S, TOKENS)
        h, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    b = tl.program_id(1)
    s = block * TOKENS + tl.arange(0, TOKENS)[:, None]
    d = tl.arange(0, WIDE)[None, :]
    inside = (s < S) & (d < D)
    x = tl.load(x_ptr + ((b * S + s) * H + h) * D + d, mask=inside, cache_modifier=READ)
    tl.store(out_ptr + ((b * H + h) * S + s) * D + d, x, mask=inside, cache_modifier=WRITE)


def valid(params, shape):
    """One to 64 elements a thread; blocks not far longer than the tokens."""
    tile = params["TOKENS"] * triton.next_power_of_2(shape["D"])
    fits = params["TOKENS"] < 2 * shape["S"]
    return fits and 1 <= tile / (32 * params["num_warps"]) <= 64


def kernel(x, *, TOKENS=8, HEADS_FIRST=False, READ="", WRITE="", num_warps=2):
    B, S, H, D = x.shape
    out = torch.empty((B, H, S, D), dtype=x.dtype, device=x.device)
    wide = triton.next_power_of_2(D)
    head_kernel[(triton.cdiv(S, TOKENS) * H, B)](
        x, out, S, H, D, TOKENS, wide, HEADS_FIRST, READ, WRITE, num_warps=num_warps
    )
    return out
