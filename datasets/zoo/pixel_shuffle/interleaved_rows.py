"""Programs write whole stretches of output rows: R input rows are interleaved in registers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.pixel_shuffle.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "BLOCK": [16, 32, 64, 128, 256],
    "MERGE": ["reshape", "strided"],
    "ROWS_FAST": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def interleaving_kernel(
    x_ptr, out_ptr, H, W, lines,
    R: tl.constexpr, SLOTS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    MERGE: tl.constexpr, ROWS_FAST: tl.constexpr,
):  # fmt: skip
    if ROWS_FAST:
        tile, block = tl.program_id(0), tl.program_id(1)
    else:
        tile, block = tl.program_id(1), tl.program_id(0)
    line = tile * ROWS + tl.arange(0, ROWS)  # rows of the result, over all planes
    row, plane = line % (H * R), line // (H * R)
    start = ((plane * R + row % R) * R * H + row // R) * W
    col = block * BLOCK + tl.arange(0, BLOCK)[None, :, None]
    slot = tl.arange(0, SLOTS)[None, None, :]
    inside = (line[:, None, None] < lines) & (col < W) & (slot < R)
    x = tl.load(x_ptr + start[:, None, None] + slot * H * W + col, mask=inside)
    if MERGE == "reshape" and SLOTS == R:
        flat = tl.reshape(x, (ROWS, BLOCK * SLOTS))
        wide = block * BLOCK * R + tl.arange(0, BLOCK * SLOTS)[None, :]
        out = out_ptr + line[:, None] * (W * R) + wide
        tl.store(out, flat, mask=(line[:, None] < lines) & (wide < W * R))
    else:
        out = out_ptr + line[:, None, None] * (W * R) + col * R + slot
        tl.store(out, x, mask=inside)


def valid(params, shape):
    """One to 32 elements a thread; rows are reshaped only where R is a power of two."""
    slots = triton.next_power_of_2(shape["R"])
    tile = params["ROWS"] * params["BLOCK"] * slots
    lines = shape["B"] * shape["C"] * shape["H"] * shape["R"]
    blocks = triton.cdiv(shape["W"], params["BLOCK"])
    fits = params["BLOCK"] < 2 * shape["W"] and (
        slots == shape["R"] or params["MERGE"] != "reshape"
    )
    fits = fits and (params["ROWS_FAST"] or lines / params["ROWS"] <= 65535) and blocks <= 65535
    return fits and 1 <= tile / (32 * params["num_warps"]) <= 32


def kernel(x, factor, *, ROWS=4, BLOCK=16, MERGE="strided", ROWS_FAST=True, num_warps=4):
    B, channels, H, W = x.shape
    C = channels // factor**2
    out = torch.empty((B, C, H * factor, W * factor), dtype=x.dtype, device=x.device)
    lines = B * C * H * factor
    tiles, blocks = triton.cdiv(lines, ROWS), triton.cdiv(W, BLOCK)
    grid = (tiles, blocks) if ROWS_FAST else (blocks, tiles)
    interleaving_kernel[grid](
        x, out, H, W, lines, factor, triton.next_power_of_2(factor), ROWS, BLOCK, MERGE, ROWS_FAST,
        num_warps=num_warps,
    )  # fmt: skip
    return out
