"""A box of points a program, loaded seven times, shifted; the caches see the overlap."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.stencil3d.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_X": [1, 2, 4],
    "BLOCK_Y": [1, 2, 4, 8, 16],
    "BLOCK_Z": [16, 32, 64, 128, 256],
    "Y_FAST": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def box_kernel(
    u_ptr, out_ptr, X, Y, Z,
    BLOCK_X: tl.constexpr, BLOCK_Y: tl.constexpr, BLOCK_Z: tl.constexpr, Y_FAST: tl.constexpr,
):  # fmt: skip
    tiles_y, tiles_z = tl.cdiv(Y, BLOCK_Y), tl.cdiv(Z, BLOCK_Z)
    if Y_FAST:
        tile_y, tile_z = tl.program_id(0) % tiles_y, tl.program_id(0) // tiles_y
    else:
        tile_y, tile_z = tl.program_id(0) // tiles_z, tl.program_id(0) % tiles_z
    x = tl.program_id(1) * BLOCK_X + tl.arange(0, BLOCK_X)[:, None, None]
    y = tile_y * BLOCK_Y + tl.arange(0, BLOCK_Y)[None, :, None]
    z = tile_z * BLOCK_Z + tl.arange(0, BLOCK_Z)[None, None, :]
    inside = (x < X) & (y < Y) & (z < Z)
    u = u_ptr + (x * Y + y) * Z + z
    acc = 4.0 * tl.load(u, mask=inside, other=0.0).to(tl.float32)
    acc += tl.load(u - 1, mask=inside & (z > 0), other=0.0).to(tl.float32)
    acc += tl.load(u + 1, mask=inside & (z < Z - 1), other=0.0).to(tl.float32)
    acc += tl.load(u - Z, mask=inside & (y > 0), other=0.0).to(tl.float32)
    acc += tl.load(u + Z, mask=inside & (y < Y - 1), other=0.0).to(tl.float32)
    acc += tl.load(u - Y * Z, mask=inside & (x > 0), other=0.0).to(tl.float32)
    acc += tl.load(u + Y * Z, mask=inside & (x < X - 1), other=0.0).to(tl.float32)
    out = out_ptr + (x * Y + y) * Z + z
    tl.store(out, (0.1 * acc).to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 16 points a thread; boxes not far larger than the whole."""
    x, y, z = params["BLOCK_X"], params["BLOCK_Y"], params["BLOCK_Z"]
    return z < 2 * shape["Z"] + 8 and 1 <= x * y * z / (32 * params["num_warps"]) <= 16


def kernel(u, *, BLOCK_X=1, BLOCK_Y=8, BLOCK_Z=64, Y_FAST=False, num_warps=4):
    X, Y, Z = u.shape
    out = torch.empty_like(u)
    grid = (triton.cdiv(Y, BLOCK_Y) * triton.cdiv(Z, BLOCK_Z), triton.cdiv(X, BLOCK_X))
    box_kernel[grid](u, out, X, Y, Z, BLOCK_X, BLOCK_Y, BLOCK_Z, Y_FAST, num_warps=num_warps)
    return out
