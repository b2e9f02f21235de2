"""Tiles of the result a program, read through block pointers that start outside of the image."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.pad.problem import FILL, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_H": [1, 2, 4, 8, 16, 32],
    "BLOCK_W": [16, 32, 64, 128, 256, 512],
    "FRAME": ["mask", "block"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def tile_kernel(
    x_ptr, out_ptr, H, W, P,
    FILL: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_W: tl.constexpr, FRAME: tl.constexpr,
):  # fmt: skip
    wide, high = W + 2 * P, H + 2 * P
    tiles_w = tl.cdiv(wide, BLOCK_W)
    r0, c0 = tl.program_id(0) // tiles_w * BLOCK_H, tl.program_id(0) % tiles_w * BLOCK_W
    x_ptr += tl.program_id(1) * H * W
    out_ptr += tl.program_id(1) * high * wide
    rows, cols = r0 + tl.arange(0, BLOCK_H)[:, None], c0 + tl.arange(0, BLOCK_W)[None, :]
    y, z = rows - P, cols - P
    inner = (y >= 0) & (y < H) & (z >= 0) & (z < W)
    if FRAME == "mask":
        x = tl.load(x_ptr + y * W + z, mask=inner, other=FILL)
        tl.store(out_ptr + rows * wide + cols, x, mask=(rows < high) & (cols < wide))
    else:
        source = tl.make_block_ptr(
            x_ptr, (H, W), (W, 1), (r0 - P, c0 - P), (BLOCK_H, BLOCK_W), (1, 0)
        )
        target = tl.make_block_ptr(
            out_ptr, (high, wide), (wide, 1), (r0, c0), (BLOCK_H, BLOCK_W), (1, 0)
        )
        x = tl.load(source, boundary_check=(0, 1), padding_option="zero")
        x = tl.where(inner, x, FILL).to(out_ptr.dtype.element_ty)
        tl.store(target, x, boundary_check=(0, 1))


def valid(params, shape):
    """One to 32 elements a thread; tiles not far larger than the image."""
    h, w = params["BLOCK_H"], params["BLOCK_W"]
    fits = h < 2 * (shape["H"] + 2 * shape["P"]) and w <= 4 * (shape["W"] + 2 * shape["P"])
    return fits and 1 <= h * w / (32 * params["num_warps"]) <= 32


def kernel(x, width, *, BLOCK_H=8, BLOCK_W=64, FRAME="mask", num_warps=4):
    C, H, W = x.shape
    out = torch.empty((C, H + 2 * width, W + 2 * width), dtype=x.dtype, device=x.device)
    tiles = triton.cdiv(H + 2 * width, BLOCK_H) * triton.cdiv(W + 2 * width, BLOCK_W)
    tile_kernel[(tiles, C)](x, out, H, W, width, FILL, BLOCK_H, BLOCK_W, FRAME, num_warps=num_warps)
    return out
