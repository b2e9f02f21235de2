"""Input rows widened in registers by a broadcast and a reshape, then stored R times as they are."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.upsample_nearest.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "BLOCK": [8, 16, 32, 64, 128, 256],
    "WIDEN": ["reshape", "gather"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def row_kernel(
    x_ptr, out_ptr, lines, W,
    R: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    WIDEN: tl.constexpr,
):  # fmt: skip
    line = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    first = tl.program_id(1) * BLOCK
    wide = first * R + tl.arange(0, BLOCK * SLOTS)[None, :]
    inside = (line < lines) & (wide < W * R) & (wide < (first + BLOCK) * R)
    if WIDEN == "reshape" and SLOTS == R:
        col = first + tl.arange(0, BLOCK)[None, :]
        x = tl.load(x_ptr + line * W + col, mask=(line < lines) & (col < W))
        x = tl.broadcast_to(x[:, :, None], (ROWS, BLOCK, SLOTS))
        x = tl.reshape(x, (ROWS, BLOCK * SLOTS))
    else:
        x = tl.load(x_ptr + line * W + wide // R, mask=inside)
    for copy in tl.static_range(R):
        tl.store(out_ptr + (line * R + copy) * (W * R) + wide, x, mask=inside)


def valid(params, shape):
    """One to 32 widened elements a thread; rows are reshaped only for R a power of two."""
    slots = triton.next_power_of_2(shape["R"])
    tile = params["ROWS"] * params["BLOCK"] * slots
    fits = params["BLOCK"] < 2 * max(shape["W"], 8)
    fits = fits and (slots == shape["R"] or params["WIDEN"] == "gather")
    return fits and 1 <= tile / (32 * params["num_warps"]) <= 32


def kernel(x, factor, *, ROWS=8, BLOCK=8, WIDEN="gather", num_warps=2):
    C, H, W = x.shape
    out = torch.empty((C, H * factor, W * factor), dtype=x.dtype, device=x.device)
    slots = triton.next_power_of_2(factor)
    grid = (triton.cdiv(C * H, ROWS), triton.cdiv(W, BLOCK))
    row_kernel[grid](x, out, C * H, W, factor, slots, ROWS, BLOCK, WIDEN, num_warps=num_warps)
    return out
