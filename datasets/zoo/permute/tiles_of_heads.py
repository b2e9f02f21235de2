"""Tokens by heads a program, vectors as a third axis, exchanged in registers by tl.permute."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.permute.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "TOKENS": [1, 2, 4, 8, 16, 32],
    "HEADS": [1, 2, 4, 8, 16],
    "STORE": ["permuted", "scattered"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def tile_kernel(
    x_ptr, out_ptr, S, H, D,
    TOKENS: tl.constexpr, HEADS: tl.constexpr, WIDE: tl.constexpr, STORE: tl.constexpr,
):  # fmt: skip
    b, s0, h0 = tl.program_id(2), tl.program_id(0) * TOKENS, tl.program_id(1) * HEADS
    s = s0 + tl.arange(0, TOKENS)[:, None, None]
    h = h0 + tl.arange(0, HEADS)[None, :, None]
    d = tl.arange(0, WIDE)[None, None, :]
    inside = (s < S) & (h < H) & (d < D)
    x = tl.load(x_ptr + ((b * S + s) * H + h) * D + d, mask=inside)
    if STORE == "scattered":
        tl.store(out_ptr + ((b * H + h) * S + s) * D + d, x, mask=inside)
    else:
        h = h0 + tl.arange(0, HEADS)[:, None, None]
        s = s0 + tl.arange(0, TOKENS)[None, :, None]
        inside = (s < S) & (h < H) & (d < D)
        x = tl.permute(x, (1, 0, 2))
        tl.store(out_ptr + ((b * H + h) * S + s) * D + d, x, mask=inside)


def valid(params, shape):
    """One to 64 elements a thread; tiles not far larger than the tensor."""
    s, h = params["TOKENS"], params["HEADS"]
    tile = s * h * triton.next_power_of_2(shape["D"])
    fits = s < 2 * shape["S"] and h < 2 * shape["H"]
    return fits and 1 <= tile / (32 * params["num_warps"]) <= 64


def kernel(x, *, TOKENS=8, HEADS=4, STORE="permuted", num_warps=4):
    B, S, H, D = x.shape
    out = torch.empty((B, H, S, D), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(S, TOKENS), triton.cdiv(H, HEADS), B)
    wide = triton.next_power_of_2(D)
    tile_kernel[grid](x, out, S, H, D, TOKENS, HEADS, wide, STORE, num_warps=num_warps)
    return out
