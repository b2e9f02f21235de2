"""A column of the box a program, marched along x: three planes are in registers at any time."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.stencil3d.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_Y": [1, 2, 4, 8, 16],
    "BLOCK_Z": [16, 32, 64, 128, 256],
    "DEPTH": [8, 16, 32, 64],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def plane_of(u_ptr, x, y, z, X, Y, Z):
    inside = (x >= 0) & (x < X) & (y >= 0) & (y < Y) & (z >= 0) & (z < Z)
    return tl.load(u_ptr + (x * Y + y) * Z + z, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def marching_kernel(
    u_ptr, out_ptr, X, Y, Z,
    BLOCK_Y: tl.constexpr, BLOCK_Z: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    y = tl.program_id(1) * BLOCK_Y + tl.arange(0, BLOCK_Y)[:, None]
    z = tl.program_id(0) * BLOCK_Z + tl.arange(0, BLOCK_Z)[None, :]
    first = tl.program_id(2) * DEPTH
    behind = plane_of(u_ptr, first - 1, y, z, X, Y, Z)
    here = plane_of(u_ptr, first, y, z, X, Y, Z)
    for x in range(first, min(first + DEPTH, X)):
        ahead = plane_of(u_ptr, x + 1, y, z, X, Y, Z)
        around = behind + ahead
        around += plane_of(u_ptr, x, y - 1, z, X, Y, Z) + plane_of(u_ptr, x, y + 1, z, X, Y, Z)
        around += plane_of(u_ptr, x, y, z - 1, X, Y, Z) + plane_of(u_ptr, x, y, z + 1, X, Y, Z)
        out = (0.4 * here + 0.1 * around).to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + (x * Y + y) * Z + z, out, mask=(y < Y) & (z < Z))
        behind, here = here, ahead


def valid(params, shape):
    """One to 8 points of a plane a thread; columns not far larger than the box."""
    y, z = params["BLOCK_Y"], params["BLOCK_Z"]
    fits = z < 2 * shape["Z"] + 8 and params["DEPTH"] < 2 * shape["X"]
    return fits and 1 <= y * z / (32 * params["num_warps"]) <= 8


def kernel(u, *, BLOCK_Y=4, BLOCK_Z=64, DEPTH=16, num_warps=4):
    X, Y, Z = u.shape
    out = torch.empty_like(u)
    grid = (triton.cdiv(Z, BLOCK_Z), triton.cdiv(Y, BLOCK_Y), triton.cdiv(X, DEPTH))
    marching_kernel[grid](u, out, X, Y, Z, BLOCK_Y, BLOCK_Z, DEPTH, num_warps=num_warps)
    return out
