"""Each head a strided matrix seen through block pointers, copied strip by strip."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.permute.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "TOKENS": [4, 8, 16, 32, 64],
    "STRIPS": [1, 2, 4, 8],
    "STAGES": [1, 2, 3],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def strip_kernel(
    x_ptr, out_ptr, S, H, D,
    TOKENS: tl.constexpr, STRIPS: tl.constexpr, WIDE: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    b, h = tl.program_id(1) // H, tl.program_id(1) % H
    first = tl.program_id(0) * TOKENS * STRIPS
    x = tl.make_block_ptr(
        x_ptr + (b * S * H + h) * D, (S, D), (H * D, 1), (first, 0), (TOKENS, WIDE), (1, 0)
    )
    out = tl.make_block_ptr(
        out_ptr + tl.program_id(1) * S * D, (S, D), (D, 1), (first, 0), (TOKENS, WIDE), (1, 0)
    )
    for _ in tl.range(STRIPS, num_stages=STAGES):
        tl.store(out, tl.load(x, boundary_check=(0, 1)), boundary_check=(0, 1))
        x = tl.advance(x, (TOKENS, 0))
        out = tl.advance(out, (TOKENS, 0))


def valid(params, shape):
    """One to 64 elements a thread; programs not far longer than the tokens; stages used."""
    tile = params["TOKENS"] * triton.next_power_of_2(shape["D"])
    fits = params["TOKENS"] * params["STRIPS"] < 2 * shape["S"]
    used = params["STAGES"] <= params["STRIPS"]
    return fits and used and 1 <= tile / (32 * params["num_warps"]) <= 64


def kernel(x, *, TOKENS=8, STRIPS=1, STAGES=1, num_warps=2):
    B, S, H, D = x.shape
    out = torch.empty((B, H, S, D), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(S, TOKENS * STRIPS), B * H)
    wide = triton.next_power_of_2(D)
    strip_kernel[grid](x, out, S, H, D, TOKENS, STRIPS, wide, STAGES, num_warps=num_warps)
    return out
