"""Tiles of words by 32 elements; bits are shifted to their places and added up."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.bit_pack.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WORDS": [8, 16, 32, 64, 128, 256],
    "LOADED_FLAT": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def pack_kernel(
    x_ptr, out_ptr, total, N, across, SIGNS: tl.constexpr, WORDS: tl.constexpr,
    LOADED_FLAT: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0).to(tl.int64) * WORDS
    word = first + tl.arange(0, WORDS)
    if LOADED_FLAT:  # neighbours by neighbours, then turned to words of 32
        i = tl.arange(0, WORDS * 32)
        its_word = first + i // 32
        col = its_word % across * 32 + i % 32
        mask = (its_word < total) & (col < N)
        x = tl.load(x_ptr + its_word // across * N + col, mask=mask, other=0)
        x = tl.reshape(x, (WORDS, 32))
    else:
        place = tl.arange(0, 32)[None, :]
        col = word[:, None] % across * 32 + place
        mask = (word[:, None] < total) & (col < N)
        x = tl.load(x_ptr + word[:, None] // across * N + col, mask=mask, other=0)
    bits = (x < 0) if SIGNS else (x != 0)
    bits = bits.to(tl.int32) << tl.arange(0, 32)[None, :]
    tl.store(out_ptr + word, tl.sum(bits, axis=1), mask=word < total)


def valid(params, shape):
    """Two to 64 elements a thread."""
    return 2 <= params["WORDS"] / params["num_warps"] <= 64


def kernel(x, *, WORDS=32, LOADED_FLAT=False, num_warps=4):
    M, N = x.shape
    across = triton.cdiv(N, 32)
    out = torch.empty((M, across), dtype=torch.int32, device=x.device)
    signs = x.is_floating_point()
    grid = (triton.cdiv(M * across, WORDS),)
    x = x.view(torch.uint8) if x.dtype == torch.bool else x
    pack_kernel[grid](x, out, M * across, N, across, signs, WORDS, LOADED_FLAT, num_warps=num_warps)
    return out
